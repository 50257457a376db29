package rules

import "testing"

func TestEveryMandatoryRuleHasATest(t *testing.T) {
	for _, contract := range All() {
		t.Run(contract.Name, func(t *testing.T) {
			found, err := contract.Read()
			if err != nil {
				t.Fatal(err)
			}
			mandatory := 0
			for _, rule := range found {
				if !rule.Mandatory {
					continue
				}
				mandatory++
				if reason := contract.Untested[rule.Name]; reason != "" {
					t.Errorf("%q has none, with the reason %q", rule.Name, reason)
				}
			}
			if mandatory < 4 {
				t.Errorf("of %v only %d are mandatory", found, mandatory)
			}
		})
	}
}

func TestAReasonIsOfARuleThatThereIs(t *testing.T) {
	contract := ControlPlane()
	contract.Untested["ControlPlane: colour"] = "it has none"
	if _, err := contract.Read(); err == nil {
		t.Error("a reason for no rule is accepted")
	}
}
