// Package report turns what drtmd found or measured into text for people and JSON for programs.
//
// Every JSON document begins with its schema, "drtmd.NAME/VERSION"; the version grows when a
// field changes its meaning or goes away. Fields carry their units in their names. A table says
// the unit in each column and the settings above it.
package report
