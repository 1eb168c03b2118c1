package aggregate

// Stat holds the mean and the maximum of an interval. Count is 0 if the interval had no values.
type Stat struct {
	Count int64
	Mean  int64
	Max   int64
}

// Interval collects the values of one interval. The zero Interval is empty.
type Interval struct {
	count, sum, max int64
}

// Add adds one value.
func (i *Interval) Add(v int64) { i.AddRun(1, v, v) }

// AddRun adds count values when only their sum and the greatest one are known.
func (i *Interval) AddRun(count, sum, greatest int64) {
	i.count += count
	i.sum += sum
	i.max = max(i.max, greatest)
}

// End returns the Stat of the interval and starts the next interval.
func (i *Interval) End() Stat {
	s := Stat{Count: i.count, Max: i.max}
	if i.count > 0 {
		s.Mean = i.sum / i.count
	}
	*i = Interval{}
	return s
}
