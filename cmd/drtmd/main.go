// Command drtmd runs, checks and measures serializable transactions over RDMA.
package main

import "drtmd/cmd/drtmd/app"

func main() { app.Main(app.Composition{}) }
