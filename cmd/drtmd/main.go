// Command drtmd measures and, as it grows, runs serializable transactions over RDMA.
package main

import "drtmd/cmd/drtmd/app"

func main() { app.Main(app.Composition{}) }
