// Package report writes results of drtmd as text for people, JSON for programs, and HTML pages.
//
// Every JSON document begins with its schema, "drtmd.NAME/VERSION"; the version grows when a
// field changes its meaning or is removed. Names of fields include their units. A table has the unit in
// each column and the settings above it.
package report
