package reproduce

// The protocols that items run: those of the systems which the papers describe. Nothing else here names one.
const (
	drtmName   = "drtm"     // the system's, too
	occName    = "drtm-occ" // DrTM §8.6
	farmName   = "farm"     // the software protocol of HADES §III
	hadesName  = "hades"    // the system's, too
	hybridName = "hades-h"
	xenicName  = "xenic" // the system's, too
	drtmhName  = "drtmh" // Xenic §5.1, and the following
	drtmhNC    = "drtmh-nc"
	fasstName  = "fasst"
	drtmrVerbs = "drtmr-verbs" // DrTM+R as it is evaluated
	dnl4Name   = "dnl4"        // Dandelion §4.2.3, and the following
	dnl2Name   = "dnl2"
	dnl1Name   = "dnl1"

	rtxName     = "rtx" // of clients of a memory node, as the next
	optimalName = "optimal"
	dtxName     = "dtx"
)
