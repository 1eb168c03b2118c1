package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// commented matches an option that is commented out in a sample: "# key = value". It does not match "## text".
var commented = regexp.MustCompile(`(?m)^( *)# (\w+ = )`)

// `make release` wants the sample of the version that the change log begins with, and the tests of a release take hours.
func TestSampleOfTheNextReleaseIsKept(t *testing.T) {
	log, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^## (v\d+\.\d+\.\d+)$`).FindSubmatch(log)
	require.NotNil(t, version)
	sample, err := os.ReadFile("../../sample.conf")
	require.NoError(t, err)
	kept := filepath.Join("testdata", "released", string(version[1])+".conf")
	text, err := os.ReadFile(kept)
	require.NoError(t, err)
	require.Equal(t, string(sample), string(text), "run: cp sample.conf internal/agent/%s", kept)
}

// A configuration that was made from the sample of an older release, or of a checkout before the first one, must stay valid, with any of its
// options.
func TestSamplesOfReleasesAreAccepted(t *testing.T) {
	files, err := filepath.Glob("testdata/released/*.conf")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			_, err = parseValid(string(text))
			require.NoError(t, err)
			enabled := commented.ReplaceAllString(string(text), "$1$2")
			require.NotEqual(t, string(text), enabled)
			_, err = parseValid(enabled)
			require.NoError(t, err, "with every option in it")
			for _, option := range commented.FindAllStringIndex(string(text), -1) {
				one := string(text[:option[0]]) + commented.ReplaceAllString(string(text[option[0]:option[1]]), "$1$2") + string(text[option[1]:])
				_, err = parseValid(one)
				require.NoError(t, err, "with %q in it", text[option[0]:option[1]])
			}
		})
	}
}
