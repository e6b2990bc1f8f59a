package lookup

// Rows of the table, in the order in which they are printed. Each structure has its Zipf row
// behind the uniform one.
const (
	rowCuckoo    = 0
	rowHopscotch = 2
	rowLinked    = 4
	rowCluster   = 6
	rowFitted    = 8
	rowWarm      = 10
	rowOwn       = 11
	rowText      = 13
)

const (
	distUniform = "uniform"
	distZipf    = "Zipf"
)

// newRows are the rows without figures.
func newRows() []*Row {
	const scrambled = "one run; which keys are hot is chance, so the mean is the uniform row's"
	return []*Row{
		{Structure: "cuckoo", Distribution: distUniform,
			Reading: "3 hashes, the third the key itself; first empty slot; every key once"},
		{Structure: "cuckoo", Distribution: distZipf, Reading: scrambled},
		{Structure: "hopscotch", Distribution: distUniform,
			Reading: "buckets of 4, window of 2 buckets, chains of 2-slot nodes; every key once"},
		{Structure: "hopscotch", Distribution: distZipf, Reading: scrambled},
		{Structure: "cluster, 8 keys and link", Distribution: distUniform,
			Reading: "this store's buckets, counted as if the link stood beside 8 keys"},
		{Structure: "cluster, 8 keys and link", Distribution: distZipf, Reading: scrambled},
		{Structure: "cluster, Figure 12", Distribution: distUniform,
			Reading: "this store: the eighth slot turns into the link; the paper has no such row"},
		{Structure: "cluster, Figure 12", Distribution: distZipf, Reading: scrambled},
		{Structure: "cluster with cache", Distribution: distUniform, Fitted: true,
			Reading: "cold, direct mapped, slots/2 single keys, 0.6 look-ups per slot"},
		{Structure: "cluster with cache", Distribution: distZipf, Fitted: true,
			Reading: "the same run gives no figure near 0; see the next row"},
		{Structure: "cluster with cache, warm", Distribution: distZipf, Fitted: true,
			Reading: "as many keys as slots, after 1.8 look-ups per slot: the nearest to 0"},
		{Structure: "cluster, this store's cache", Distribution: distUniform,
			Reading: "buckets in 8 ways, cold, the bytes and look-ups of the fitted cache"},
		{Structure: "cluster, this store's cache", Distribution: distZipf,
			Reading: "the same"},
		{Structure: "§6.4, 1 thread", Distribution: distUniform,
			Reading: "cold, direct mapped, as many keys as slots, 1 look-up per slot"},
		{Structure: "§6.4, 8 threads", Distribution: distUniform,
			Reading: "the same cache, shared, 8 look-ups per slot"},
	}
}

// paper is Table VI as printed, and the two figures of the text, by row and occupancy.
var paper = map[int][len(occupancies)]string{
	rowCuckoo:        {"1.348", "1.652", "1.956"},
	rowCuckoo + 1:    {"1.304", "1.712", "1.924"},
	rowHopscotch:     {"1.000", "1.011", "1.044"},
	rowHopscotch + 1: {"1.000", "1.020", "1.040"},
	rowLinked:        {"1.008", "1.052", "1.100"},
	rowLinked + 1:    {"1.004", "1.039", "1.091"},
	rowFitted:        {"0.204", "0.475", "0.587"},
	rowFitted + 1:    {"~0", "~0", "~0"},
	rowWarm:          {"~0", "~0", "~0"},
	rowText:          {"", "", "0.178"},
	rowText + 1:      {"", "", "0.024"},
}

// add puts a figure of the occupancy under way into a row.
func (r *run) add(row int, c Cell) {
	c.OccupancyPercent = r.occupancy
	for i, o := range occupancies {
		if o == r.occupancy {
			c.Paper = paper[row][i]
			c.compare()
		}
	}
	r.rows[row].Cells = append(r.rows[row].Cells, c)
}
