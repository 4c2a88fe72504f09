// A profiler: where a million samples over all kernels of some modules are, in one request by kernel and in one by device address.
//
//	profiler unix:/run/user/1000/symd/symd.sock 1000000 v4-gfx900.co nested-14.co
//
// Sample i is in kernel (r >> 33) % kernels, at byte (r >> 13) % size of it, where r follows the generator below.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log"
	"math"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/golang/protobuf/proto"
	symd "github.com/symd/symd/gen/go/symd/v1"
	"google.golang.org/grpc"
)

// What every client writes: failures, the upload, packed arrays.
func demand(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func upload(modules symd.ModuleServiceClient, file string) string {
	content, err := os.ReadFile(file)
	demand(err)
	digest := sha256.Sum256(content)
	header := &symd.UploadHeader{Sha256: hex.EncodeToString(digest[:]), SizeBytes: uint64(len(content))}
	stream, err := modules.UploadModule(context.Background())
	demand(err)
	err = stream.Send(&symd.UploadModuleRequest{Part: &symd.UploadModuleRequest_Header{Header: header}})
	for rest := bytes.NewBuffer(content); err == nil && rest.Len() > 0; {
		err = stream.Send(&symd.UploadModuleRequest{Part: &symd.UploadModuleRequest_Chunk{Chunk: rest.Next(1 << 20)}})
	}
	response, err := stream.CloseAndRecv()
	demand(err)
	return response.Module.Name
}

func unpacked(packed []byte, count uint32) []uint64 {
	numbers := make([]uint64, count)
	width := len(packed) / int(count) // 0: all are zero
	for i := range numbers {
		for j := width - 1; j >= 0; j-- {
			numbers[i] = numbers[i]<<8 | uint64(packed[i*width+j])
		}
	}
	return numbers
}

func packed(numbers interface{}) []byte {
	var column bytes.Buffer
	demand(binary.Write(&column, binary.LittleEndian, numbers))
	return column.Bytes()
}

// One request, and the samples of each line: its innermost frame, with the reason where the line is not certain.
func profile(symbols symd.SymbolServiceClient, title string, request *symd.SymbolizeRequest) {
	start := time.Now()
	response, err := symbols.Symbolize(context.Background(), request)
	demand(err)
	answers := response.PackedAnswers
	table := answers.Locations
	samples := make([]int, table.Count)
	for _, location := range unpacked(answers.Location, answers.Count) {
		samples[location]++
	}
	functions, files := unpacked(table.Function, table.Count), unpacked(table.File, table.Count)
	lines, reasons := unpacked(table.Line, table.Count), unpacked(table.Reason, table.Count)
	sums := map[string]int{}
	for i, count := range samples {
		name := table.Strings[functions[i]]
		if lines[i] != 0 {
			name += fmt.Sprintf(" %s:%d", table.Strings[files[i]], lines[i])
		}
		if reason := symd.Reason(reasons[i]); reason != symd.Reason_REASON_EXACT {
			name += " " + reason.String()
		}
		if count > 0 {
			sums[name] += count
		}
	}
	seconds := time.Since(start).Seconds()
	fmt.Printf("%s: %d samples, %.4g M samples/s, %d bytes back\n",
		title, answers.Count, float64(answers.Count)/seconds/1e6, proto.Size(response))
	names := make([]string, 0, len(sums))
	for name := range sums {
		names = append(names, name)
	}
	sort.Slice(names, func(i, j int) bool {
		one, other := names[i], names[j]
		return sums[one] > sums[other] || sums[one] == sums[other] && one < other
	})
	for i := 0; i < len(names) && i < 10; i++ {
		fmt.Println(sums[names[i]], names[i])
	}
}

func main() {
	if len(os.Args) < 4 {
		log.Fatal("usage: profiler SERVER SAMPLES MODULE...")
	}
	channel, err := grpc.Dial(os.Args[1], grpc.WithInsecure(), grpc.WithAuthority("localhost"),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)))
	demand(err)
	count, err := strconv.Atoi(os.Args[2])
	demand(err)
	modules, contexts := symd.NewModuleServiceClient(channel), symd.NewContextServiceClient(channel)
	background := context.Background()

	// All kernels of all modules, and a load that has each of them at a device address of its own.
	var origins []*symd.Origin
	var events []*symd.MapEvent
	var sizes, bases []uint64
	next := uint64(0x100000000)
	for _, file := range os.Args[3:] {
		module := upload(modules, file)
		load := &symd.Load{Module: module, TimeNs: 1}
		events = append(events, &symd.MapEvent{Kind: &symd.MapEvent_Load{Load: load}})
		request := &symd.ListKernelsRequest{Module: module, FactsAsJson: true}
		for more := true; more; more = request.PageToken != "" {
			page, err := modules.ListKernels(background, request)
			demand(err)
			for _, kernel := range page.Kernels {
				if kernel.SizeBytes == 0 {
					continue
				}
				path := kernel.CodeObject
				origins = append(origins, &symd.Origin{Module: module, CodeObject: &path, Kind: &symd.Origin_Function{Function: kernel.Name}})
				start := &symd.Query{Kind: &symd.Query_FunctionOffset{FunctionOffset: &symd.FunctionOffset{Function: kernel.Name}}}
				segment := &symd.Segment{Address: next, SizeBytes: kernel.SizeBytes, Start: start, CodeObject: &path}
				load.Segments = append(load.Segments, segment)
				sizes, bases = append(sizes, kernel.SizeBytes), append(bases, next)
				next += (kernel.SizeBytes + 0xfff) &^ 0xfff
			}
			request.PageToken = page.NextPageToken
		}
	}
	if len(sizes) == 0 {
		log.Fatal("these modules have no kernel whose size is known")
	}
	attributes := map[string]string{"start": strconv.FormatInt(time.Now().UnixNano(), 10)}
	create := &symd.CreateContextRequest{Context: &symd.Context{Host: "profiler", Clock: "none", Attributes: attributes}}
	created, err := contexts.CreateContext(background, create)
	demand(err)
	_, err = contexts.RecordEvents(background, &symd.RecordEventsRequest{Context: created.Context.Name, Events: events})
	demand(err)

	offsets, origin, addresses := make([]uint32, count), make([]uint32, count), make([]uint64, count)
	random := uint64(1)
	for i := range offsets {
		random = random*6364136223846793005 + 1442695040888963407
		kernel := (random >> 33) % uint64(len(sizes))
		origin[i], offsets[i] = uint32(kernel), uint32((random>>13)%sizes[kernel])
		addresses[i] = bases[kernel] + uint64(offsets[i])
	}
	kernels := &symd.PackedQueries{Count: uint32(count), Values: packed(offsets), Origins: origins, Origin: packed(origin)}
	loaded := []*symd.Origin{{Kind: &symd.Origin_Context{Context: created.Context.Name}}}
	device := &symd.PackedQueries{Count: uint32(count), Values: packed(addresses), Origins: loaded}
	symbols := symd.NewSymbolServiceClient(channel)
	profile(symbols, "by kernel", &symd.SymbolizeRequest{PackedQueries: kernels})
	profile(symbols, "by device address", &symd.SymbolizeRequest{PackedQueries: device})
}
