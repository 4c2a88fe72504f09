// Asks a daemon for the frames of one object address: symbolize unix:/run/user/1000/symd/symd.sock SHA256 0x1b0
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"

	symd "github.com/symd/symd/gen/go/symd/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
)

// The reason for which a call failed, such as UNKNOWN_MODULE: programs tell failures apart by it, not by the message.
func reason(err error) string {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.Domain == "symd" {
			return info.Reason
		}
	}
	return "no reason of symd" // gRPC itself failed: nobody answers at that address
}

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: symbolize SERVER SHA256 ADDRESS (symd info --server SERVER FILE brings a module there, and says its SHA-256)")
	}
	channel, err := grpc.Dial(os.Args[1], grpc.WithInsecure(), grpc.WithAuthority("localhost"))
	if err != nil {
		log.Fatal(err)
	}
	address, err := strconv.ParseUint(os.Args[3], 0, 64)
	if err != nil {
		log.Fatal(err)
	}
	query := &symd.Query{Kind: &symd.Query_Address{Address: address}}
	request := &symd.SymbolizeRequest{Module: "modules/" + os.Args[2], Queries: []*symd.Query{query}}
	response, err := symd.NewSymbolServiceClient(channel).Symbolize(context.Background(), request)
	if err != nil {
		log.Fatalf("%s: %s", reason(err), status.Convert(err).Message())
	}
	answer := response.Answers[0]
	for _, frame := range answer.Frames {
		fmt.Printf("%s %s:%d\n", frame.GetFunction(), frame.GetFile(), frame.Line)
	}
	if len(answer.Frames) == 0 {
		fmt.Println(answer.Reason)
	}
}
