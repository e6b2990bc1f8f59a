package reproduce

import "time"

// ownName is the name of what no paper has.
const ownName = "drtmd"

// own are measurements of drtmd that no paper has.
func own() System {
	figures := []Item{
		{Title: "time of a recovery by transactions under way, logs and records", Kind: Measured,
			run: recoveryTimes, cost: cost{45 * time.Second, 2 * time.Minute}},
	}
	return System{Name: ownName, Title: "drtmd", Paper: "measurements of drtmd itself, which no paper has",
		Items: numbered(ownName, false, nil, figures)}
}
