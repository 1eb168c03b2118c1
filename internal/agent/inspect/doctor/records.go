package doctor

import (
	"errors"
	"fmt"
	"io/fs"

	"rdma_events/internal/agent/advice"
	"rdma_events/internal/agent/inspect"
)

// checkRecords checks the directory of the recorder.
func checkRecords(x *examination) []Result {
	r := Result{Check: "recorder"}
	dir := x.plugin.Records
	if dir == "" {
		dir = x.Records
	}
	info, err := fs.Stat(x.Root, inspect.Relative(dir))
	switch {
	case errors.Is(err, fs.ErrNotExist) && x.plugin.Records == "":
		r.Status = Skipped
		r.Text = fmt.Sprintf("there is no %s, which the package's unit file creates: nothing is recorded unless recorder.directory is set", dir)
	case err != nil:
		r.Status, r.Text = Warn, err.Error()
		r.Fix = x.command(advice.MakeRecords, dir)
	case !info.IsDir() || info.Mode().Perm()&0o022 != 0:
		r.Status = Warn
		r.Text = fmt.Sprintf("nothing is recorded: %s is not a directory that only the plugin's user can access (mode %04o)", dir, info.Mode().Perm())
		r.Fix = x.command(advice.CloseRecords, dir)
	default:
		r.Text = "what happens is recorded in " + dir
		if x.plugin.Records == "" {
			r.Text += ", if the plugin runs with the package's unit file"
		}
	}
	return []Result{r}
}
