package influx3

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// home has the measurement of the documentation's examples.
var home = Schema{"home": {"room"}, "weather": {"location"}}

// Each rule has a query on both of its sides. Those that the documentation has as an example are marked.
func TestQueriesOnBothSidesOfEachRule(t *testing.T) {
	for query, want := range map[string][]string{
		`SELECT * FROM home`:                                                           nil, // select.md
		`SELECT temp, hum, room FROM home`:                                             nil, // select.md
		`SHOW RETENTION POLICIES`:                                                      nil, // show.md
		`SHOW TAG KEYS FROM home`:                                                      nil,
		`SHOW FIELD KEYS FROM home`:                                                    nil,
		`SHOW MEASUREMENTS`:                                                            nil,
		`EXPLAIN SELECT temp FROM home`:                                                nil,
		`SHOW TAG VALUES FROM home WITH KEY = room`:                                    nil,
		`SHOW DATABASES`:                                                               {"`SHOW DATABASES`"},
		`SHOW TAG VALUES FROM home, weather WITH KEY =~ /oo/`:                          nil, // explore-schema.md
		`SHOW TAG VALUES FROM home WITH KEY IN ("room", "level")`:                      {showsField.reason},
		`SHOW TAG VALUES FROM home WITH KEY = temp`:                                    {showsField.reason},
		`SHOW TAG VALUES FROM home, weather WITH KEY = location`:                       nil,
		`SHOW TAG VALUES WITH KEY = temp`:                                              nil, // of any measurement
		`SHOW TAG VALUES FROM weather WITH KEY = location WHERE location =~ /^C/`:      nil,
		`SHOW TAG VALUES FROM weather WITH KEY = location WHERE time > now() - 7d`:     nil, // explore-schema.md
		`SHOW TAG VALUES FROM home WITH KEY = room WHERE temp > 20`:                    {showsByField.reason},
		`SHOW TAG VALUES FROM home WITH KEY = room LIMIT 5 OFFSET 2`:                   nil,
		`SHOW TAG VALUES FROM home WITH KEY = room ORDER BY time`:                      {sortsSchema.reason},
		`SHOW TAG VALUES FROM home WITH KEY = room WHERE time < 1h OR time > 2h`:       {severalRanges.reason},
		`SHOW TAG KEYS FROM home WHERE room = 'Kitchen' LIMIT 5`:                       nil,
		`SHOW TAG KEYS FROM home SLIMIT 1 SOFFSET 1`:                                   {limitsSeries.reason, skipsSeries.reason},
		`SHOW FIELD KEYS FROM home LIMIT 5`:                                            {limitsFieldKeys.reason},
		`SHOW FIELD KEYS FROM home ORDER BY time`:                                      {sortsSchema.reason},
		`SHOW MEASUREMENTS WITH MEASUREMENT =~ /^home/ WHERE room = 'Kitchen' LIMIT 5`: nil, // explore-schema.md
		`SHOW MEASUREMENTS ORDER BY time`:                                              {sortsSchema.reason},
		`SHOW SERIES`:                                                                  {"`SHOW SERIES`"},
		`SHOW SERIES CARDINALITY`:                                                      {"`SHOW SERIES CARDINALITY`"},
		`SHOW QUERIES`:                                                                 {"`SHOW QUERIES`"},
		`CREATE DATABASE "rdma"`:                                                       {"`CREATE DATABASE`"},
		`CREATE CONTINUOUS QUERY "q" ON "d" BEGIN SELECT mean(temp) INTO "m" FROM home GROUP BY time(1h) END`: {"`CREATE CONTINUOUS QUERY`"},
		`DROP MEASUREMENT home`: {"`DROP MEASUREMENT home`"},

		`SELECT last(temp) FROM home`:                                       nil, // selectors.md
		`SELECT sample(temp, 3) FROM home`:                                  {"`sample()`"},
		`SELECT integral(temp) FROM home`:                                   nil,
		`SELECT holt_winters(mean(temp), 3, 0) FROM home GROUP BY time(1h)`: {"`holt_winters()`"},
		`SELECT nosuch(temp) FROM home`:                                     {"`nosuch()`"},
		`SELECT count(distinct(co)) FROM home`:                              nil, // aggregates.md

		`SELECT temp FROM home LIMIT 3 OFFSET 1`:                nil, // limit-and-slimit.md
		`SELECT mean(temp) FROM home GROUP BY room SLIMIT 1`:    {limitsSeries.reason},
		`SELECT mean(temp) FROM home GROUP BY room SOFFSET 1`:   {skipsSeries.reason},
		`SELECT mean(temp) INTO other FROM home`:                {writesInto.reason},
		`SELECT mean(temp) FROM home ORDER BY time DESC`:        nil,
		`SELECT last(temp) FROM home GROUP BY time(1h) fill(0)`: nil, // group-by.md

		`SELECT 10 * mean(temp) FROM home`:                                   nil,                 // math-operators.md
		`SELECT mean(10 * temp) FROM home`:                                   {mathInCall.reason}, // math-operators.md
		`SELECT ceil((temp)) FROM home`:                                      nil,
		`SELECT ceil("n") FROM (SELECT temp / 2 AS "n" FROM home)`:           nil,
		`SELECT sum("n") FROM (SELECT ceil(max(temp) / 2) AS "n" FROM home)`: {mathInCall.reason},
		`SELECT moving_average(mean(temp), 2) FROM home GROUP BY time(1h)`:   nil,
		`SELECT elapsed(temp, 1ns) FROM home GROUP BY room`:                  nil,
		`SELECT count(*) FROM home`:                                          nil,
		`SELECT count(*) / 2 FROM home`:                                      {mathOnPattern.reason}, // math-operators.md
		`SELECT count(/t/) + 2 FROM home`:                                    {mathOnPattern.reason}, // math-operators.md
		`SELECT * + 2 FROM home`:                                             {mathOnPattern.reason}, // math-operators.md
		`SELECT temp & 1 FROM home`:                                          nil,                    // math-operators.md

		`SELECT mean(temp), hum FROM home`:                                              {mixesFields.reason}, // select.md
		`SELECT mean(temp), mean(hum) FROM home`:                                        nil,
		`SELECT top(temp, 3), room FROM home`:                                           nil, // selectors.md
		`SELECT last(temp), hum FROM home`:                                              {mixesFields.reason},
		`SELECT mean(temp), room FROM home`:                                             {mixesTags.reason}, // troubleshoot.md
		`SELECT last(temp), room FROM home`:                                             nil,
		`SELECT last(temp) - hum FROM home`:                                             {mixesFields.reason},
		`SELECT temp, abs(temp) FROM home`:                                              nil, // transformations.md
		`SELECT max("t"), room FROM (SELECT last(temp) AS "t" FROM home GROUP BY room)`: nil,
		`SELECT max("t"), "u" FROM (SELECT temp AS "t", hum AS "u" FROM home)`:          {mixesFields.reason},

		`SELECT mean(temp) FROM home GROUP BY room`:                                             nil,
		`SELECT mean(temp) FROM home GROUP BY *`:                                                nil, // group-by.md
		`SELECT mean(temp) FROM home GROUP BY /^r/`:                                             nil, // group-by.md
		`SELECT temp FROM home GROUP BY room`:                                                   {groupsRaw.reason},
		`SELECT temp FROM home GROUP BY time(1h)`:                                               {groupsRaw.reason},
		`SELECT abs(temp) FROM home GROUP BY room`:                                              nil, // transformations.md
		`SELECT abs(mean(temp)) FROM home GROUP BY time(1h)`:                                    nil, // transformations.md
		`SELECT abs(temp) FROM home GROUP BY time(1h)`:                                          {transformsTimes.reason},
		`SELECT mean(temp) FROM home GROUP BY hum`:                                              {groupsByField.reason},
		`SELECT max("m") FROM (SELECT mean(temp) AS "m" FROM home GROUP BY room) GROUP BY room`: nil,
		`SELECT max("m") FROM (SELECT mean(temp) AS "m" FROM home) GROUP BY "m"`:                {groupsByField.reason},

		`SELECT temp FROM home WHERE time > now() - 1h AND (room = 'a' OR room = 'b')`:                   nil,
		`SELECT temp FROM home WHERE (time > 1h AND time < 2h) OR (time > 3h AND time < 4h)`:             {severalRanges.reason}, // where.md
		`SELECT temp FROM home WHERE co - 10 > 5`:                                                        nil,                    // where.md
		`SELECT max("a") FROM (SELECT last(temp) AS "a" FROM home), (SELECT last(hum) AS "a" FROM home)`: nil,                    // select.md
		`SELECT sum("a") FROM (SELECT sample(temp, 2) AS "a" FROM home SLIMIT 1)`:                        {limitsSeries.reason, "`sample()`"},
	} {
		found, err := Check(query, home)
		require.NoError(t, err, query)
		var reasons []string
		for _, f := range found {
			reasons = append(reasons, f.Reason)
			require.NotEmpty(t, f.Page, query)
		}
		require.ElementsMatch(t, want, reasons, query)
	}
	_, err := Check(`SELECT FROM`, home)
	require.ErrorContains(t, err, "parse InfluxQL")
}

func TestUnknownMeasurementIsAnError(t *testing.T) {
	_, err := Check(`SELECT temp FROM nosuch`, home)
	require.ErrorContains(t, err, "nosuch")
}

// Each function of the documentation's tables is on the side where the table has it.
func TestEveryFunctionIsOnItsSide(t *testing.T) {
	for name, f := range functions {
		if f.kind == miscellaneous {
			continue // they stand in clauses, not in SELECT
		}
		found, err := Check(`SELECT `+name+`(temp) FROM home`, home)
		require.NoError(t, err, name)
		require.Equal(t, f.supported, len(found) == 0, name)
	}
}
