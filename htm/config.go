package htm

// LineBytes is the unit of conflict detection.
const LineBytes = 64

// Geometry is the capacity of a region. Written lines stay in a cache of sets and ways, as on
// Intel's processors before the write set spills: one set overflows long before the cache is full
// if the lines are spread at random (DrTM §2.1, Figure 2). Lines that are only read may leave the
// cache and are counted only.
type Geometry struct {
	LineBytes int // 64
	Sets      int // of the cache that holds written lines; a power of two
	Ways      int // lines in a set
	ReadLines int // most lines that a region may touch in all
}

// DefaultGeometry is 32 KiB in 8 ways for what is written and 256 KiB for what is touched.
func DefaultGeometry() Geometry {
	return Geometry{LineBytes: LineBytes, Sets: 64, Ways: 8, ReadLines: 4096}
}

// maxLines bounds Geometry.ReadLines and the written lines.
const maxLines = 1 << 20

// Values of the word that Config.Flag points to.
const (
	FlagIdle   uint32 = iota // no region is running on the worker
	FlagActive               // one is: posting is refused
	FlagPosted               // one is, and a verb was posted: it will abort
)

// DefaultSpins is how often a region looks at a line that somebody has locked before it aborts:
// about as long as a commit takes.
const DefaultSpins = 100

// Config of a Region.
type Config struct {
	Geometry // the zero value is DefaultGeometry

	// Flag is the worker's: package fiber refuses to post while it is FlagActive and sets
	// FlagPosted. nil: nobody looks.
	Flag *uint32

	// Spurious, if not nil, is asked at each new line and at each commit whether the region
	// aborts for no reason. For tests and simulations.
	Spurious func() bool

	// Step, if not nil, is called at the marked steps of a commit (StepLocked...): the simulator
	// lets other events run there, and may end the node. nil on real transports.
	Step func(name string)

	// Published, if not nil, is called for each line that a commit has published, so that who
	// waits for it is woken. The simulator's only.
	Published func(m *Memory, line int)

	// Mutation leaves a safety step out; 0 is none. For tests of checks.
	Mutation Mutation

	// Spins is how often to look at a locked line; 0 = DefaultSpins, negative = once (where
	// nothing runs meanwhile).
	Spins int
}

// Marked steps of a commit, for Config.Step. With line words:
const (
	StepListed    = "htm: write set listed"
	StepLocked    = "htm: line locked" // after each
	StepConfirmed = "htm: confirmed"
	StepValidated = "htm: read set valid"
	StepCommitted = "htm: commit recorded"
	StepStored    = "htm: line stored"    // after each, still locked
	StepPublished = "htm: line published" // after each
)

// Marked steps of a commit with a RecordCommitter.
const (
	StepRecordsLocked    = "htm: records locked"
	StepRecordsValid     = "htm: records valid"
	StepRecordsStored    = "htm: records stored"
	StepRecordsUnlocked  = "htm: records unlocked"
	StepRecordsConfirmed = "htm: records confirmed"
)
