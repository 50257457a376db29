package software

// UnitDir is where the files of units are.
const UnitDir = "/etc/systemd/system/"
