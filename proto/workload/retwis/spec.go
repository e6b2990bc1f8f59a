package retwis

import (
	"drtmd/proto"
	"drtmd/proto/option"
	"drtmd/proto/workload"
	"drtmd/proto/workload/keyvalue"
)

// Spec describes the workload.
func Spec() workload.Spec {
	d := Default(1)
	return workload.Spec{
		Name:    "retwis",
		Doc:     "a small Twitter clone of gets and puts (TAPIR; Xenic §5.4)",
		Options: keyvalue.Options(d.Keys, d.ValueBytes, d.Theta),
		Transactions: []workload.Transaction{
			{Name: AddUser.String(), Percent: 5, Doc: "gets a key, puts it and two others"},
			{Name: Follow.String(), Percent: 15, Doc: "gets and puts two keys"},
			{Name: PostTweet.String(), Percent: 30, Doc: "gets and puts three keys, puts two others"},
			{Name: LoadTimeline.String(), Percent: 50, ReadOnly: true, Doc: "gets one to ten keys"},
		},
		Tables:    []workload.Table{{Name: "records", Doc: "users, tweets and timelines"}},
		Verify:    "every record has a value that was written for its key",
		Functions: functions(),
		Words:     func(_ int, v option.Values) string { return keyvalue.Words(v) },
		New: func(nodes int, v option.Values) (workload.Workload, error) {
			w, err := New(Options{Nodes: nodes, Keys: v.Int(keyvalue.OptKeys), KeyBytes: v.Int(keyvalue.OptKeyBytes),
				ValueBytes: v.Int(keyvalue.OptValueBytes), Theta: v.Float(keyvalue.OptTheta)})
			if err != nil {
				return nil, err
			}
			return w, nil
		},
	}
}

// functions declares the transactions, all of which Xenic ships (§5.4).
func functions() []workload.Function {
	space := func(w workload.Workload) *keyvalue.Space { return &w.(*Retwis).Space }
	records := func(m proto.Mode, least, most int, doc string) workload.FunctionRecords {
		return workload.FunctionRecords{Table: "records", Mode: m, Least: least, Most: most, Doc: doc}
	}
	const doc = "the argument has the operation of each record"
	function := func(k Kind, r ...workload.FunctionRecords) workload.Function {
		return keyvalue.Function(uint8(k), k.String(), doc, space, r...)
	}
	return []workload.Function{
		function(AddUser, records(proto.ModeWrite, 1, 1, "got and put"), records(proto.ModeWrite, 2, 2, "put")),
		function(Follow, records(proto.ModeWrite, 2, 2, "got and put")),
		function(PostTweet, records(proto.ModeWrite, 3, 3, "got and put"), records(proto.ModeWrite, 2, 2, "put")),
		function(LoadTimeline, records(proto.ModeRead, 1, MostGets, "got")),
	}
}
