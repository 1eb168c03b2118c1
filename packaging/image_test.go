package packaging

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
)

// imageTags returns the plugins that the Dockerfile builds into the image's Telegraf.
func imageTags(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("container/Dockerfile")
	require.NoError(t, err)
	lists := regexp.MustCompile(`(?m)^ARG TELEGRAF_TAGS=(\S+)$`).FindAllStringSubmatch(string(text), -1)
	require.Len(t, lists, 1, "scripts/tools.mk reads this line too")
	return strings.Split(lists[0][1], ",")
}

// shippedConfigs returns the Telegraf configurations of the image, of the packages, of assets and of the documents, by their
// places. It leaves out the configuration of the plugin itself.
func shippedConfigs(t *testing.T) map[string]string {
	t.Helper()
	block := regexp.MustCompile("(?ms)^ *```toml\n(.*?)^ *```$")
	configs := map[string]string{}
	for _, dir := range []string{".", "../assets", "../docs"} {
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.Name() == "node_modules" || path == "systemd":
				return fs.SkipDir
			case d.IsDir() || !slices.Contains([]string{".conf", ".md"}, filepath.Ext(path)):
				return nil
			}
			text, err := os.ReadFile(path)
			if filepath.Ext(path) == ".conf" {
				configs[path] = string(text)
				return err
			}
			for _, b := range block.FindAllSubmatchIndex(text, -1) {
				configs[fmt.Sprintf("%s:%d", path, 1+bytes.Count(text[:b[2]], []byte("\n")))] = string(text[b[2]:b[3]])
			}
			return err
		}))
	}
	return configs
}

// neededTags returns the build tags of the plugins and data formats in a Telegraf configuration.
func neededTags(t *testing.T, config string) []string {
	t.Helper()
	var tables map[string]any
	_, err := toml.Decode(config, &tables)
	require.NoError(t, err, config)
	var tags []string
	for kind, formats := range map[string]string{"inputs": "parsers", "processors": "parsers", "aggregators": "", "outputs": "serializers"} {
		plugins, _ := tables[kind].(map[string]any)
		for name, instances := range plugins {
			if kind+"."+name == "inputs.rdma_events" {
				continue // the plugin's own configuration
			}
			tags = append(tags, kind+"."+name)
			for _, settings := range instances.([]map[string]any) {
				if format, ok := settings["data_format"].(string); ok {
					tags = append(tags, formats+"."+format)
				}
			}
		}
	}
	return tags
}

// Telegraf ends with "undefined but requested" when a plugin of its configuration is not built in.
func TestImageHasThePluginsOfEachShippedConfiguration(t *testing.T) {
	// Telegraf beside the database runs assets/telegraf/kafka-database.conf, and no image of this project runs there.
	tags := append(imageTags(t), "inputs.kafka_consumer")
	var seen []string
	for place, config := range shippedConfigs(t) {
		for _, tag := range neededTags(t, config) {
			if !slices.Contains(tags, tag) {
				t.Errorf("%s needs %s, which TELEGRAF_TAGS in container/Dockerfile lacks", place, tag)
			}
			seen = append(seen, tag)
		}
	}
	for _, tag := range []string{
		"inputs.execd", "parsers.influx", "outputs.health", "processors.parser", "parsers.prometheus", "outputs.loki", "serializers.prometheusremotewrite",
	} {
		require.Contains(t, seen, tag, "the test finds the configuration with this plugin")
	}
}
