package timeline

import (
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"
)

// Lane is a part of what is created. Its phases follow each other.
type Lane struct {
	Title  string
	Phases []Phase
}

// Phase is what a lane waits for until the time that its row reads. It begins where the phase before ends; the first phase of a lane is its
// beginning, and is not drawn.
type Phase struct {
	Name string
	Row
}

// Measures of a picture, in pixels.
const (
	pictureWidth = 960
	labelWidth   = 230
	rightMargin  = 30
	legendHeight = 40
	barHeight    = 18
	barStep      = 22
	laneGap      = 12
	axisHeight   = 30
)

// phaseColors are given to phases in the order in which their names come first. They can be told apart without colours, too.
var phaseColors = []string{"#264653", "#2a9d8f", "#8ab17d", "#e9c46a", "#f4a261", "#e76f51"}

type (
	picture struct {
		Title         string
		Width, Height int
		Legend, Bars  []box
		Ticks, Labels []text
	}
	box struct {
		X, Y, Width, Height int
		Color, Says         string
	}
	text struct {
		X, Y int
		Text string
	}
)

var svg = template.Must(template.New("svg").Parse(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {{.Width}} {{.Height}}" font-family="sans-serif" font-size="13">
<title>{{.Title}}</title>
<rect width="{{.Width}}" height="{{.Height}}" fill="white"/>
{{- range .Ticks}}
<line x1="{{.X}}" y1="40" x2="{{.X}}" y2="{{.Y}}" stroke="#dddddd"/>
{{- end}}
{{- range .Legend}}
<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}" fill="{{.Color}}"/>
{{- end}}
{{- range .Bars}}
<rect x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}" fill="{{.Color}}"><title>{{.Says}}</title></rect>
{{- end}}
{{- range .Labels}}
<text x="{{.X}}" y="{{.Y}}">{{.Text}}</text>
{{- end}}
</svg>
`))

// Draw writes a picture (SVG) of where the time goes: for each lane a bar of each column, by the medians of its runs.
func Draw(w io.Writer, title string, lanes []Lane, columns ...Column) error {
	p := picture{Title: title, Width: pictureWidth}
	colors := p.legend(lanes)
	end := last(lanes, columns)
	at := func(d time.Duration) int {
		return labelWidth + int(math.Round((pictureWidth-labelWidth-rightMargin)*d.Seconds()/end.Seconds()))
	}
	y := legendHeight
	for _, lane := range lanes {
		for _, column := range columns {
			bars := lane.bars(column, colors, y, at)
			if len(bars) == 0 {
				continue
			}
			p.Bars, p.Labels = append(p.Bars, bars...), append(p.Labels, text{8, y + barHeight - 4, lane.Title + ", " + column.Heading})
			y += barStep
		}
		y += laneGap
	}
	step := time.Duration(math.Ceil(end.Seconds()/12)) * time.Second
	for second := time.Duration(0); second <= end; second += step {
		p.Ticks = append(p.Ticks, text{X: at(second), Y: y})
		p.Labels = append(p.Labels, text{at(second) - 8, y + 16, fmt.Sprintf("%.0f s", second.Seconds())})
	}
	p.Height = y + axisHeight
	if err := svg.Execute(w, p); err != nil {
		return fmt.Errorf("draw %s: %w", title, err)
	}
	return nil
}

// legend names each phase once, and gives its colour.
func (p *picture) legend(lanes []Lane) map[string]string {
	colors := map[string]string{}
	for _, lane := range lanes {
		for _, phase := range lane.Phases[1:] {
			if _, known := colors[phase.Name]; known {
				continue
			}
			x := 8 + len(colors)*(pictureWidth-16)/len(phaseColors)
			colors[phase.Name] = phaseColors[len(colors)%len(phaseColors)]
			p.Legend = append(p.Legend, box{X: x, Y: 10, Width: 12, Height: 12, Color: colors[phase.Name]})
			p.Labels = append(p.Labels, text{x + 18, 21, phase.Name})
		}
	}
	return colors
}

// bars are the phases of a lane for one column. A phase that no run has is part of the next one.
func (lane Lane) bars(column Column, colors map[string]string, y int, at func(time.Duration) int) (bars []box) {
	began, ok := column.median(lane.Phases[0].Row)
	for _, phase := range lane.Phases[1:] {
		ended, there := column.median(phase.Row)
		if !there {
			continue
		}
		if ok && ended > began {
			bars = append(bars, box{at(began), y, at(ended) - at(began), barHeight, colors[phase.Name],
				fmt.Sprintf("%s: %.2f s", phase.Name, (ended - began).Seconds())})
		}
		began, ok = max(began, ended), true
	}
	return bars
}

// median is that of the runs that have the row's time.
func (c Column) median(row Row) (time.Duration, bool) {
	var times []time.Duration
	for _, run := range c.Runs {
		if at, ok := row.At(run); ok {
			times = append(times, at)
		}
	}
	return Median(times), len(times) > 0
}

// last is the latest time of all lanes, and at least a second.
func last(lanes []Lane, columns []Column) time.Duration {
	ends := []time.Duration{time.Second}
	for _, lane := range lanes {
		for _, phase := range lane.Phases {
			for _, column := range columns {
				end, _ := column.median(phase.Row)
				ends = append(ends, end)
			}
		}
	}
	return slices.Max(ends)
}
