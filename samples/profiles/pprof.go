// Writes an unsymbolized pprof profile with Google's own package, as a profiler of GPU kernels would: to standard output,
// gzipped. Arguments: the SHA-256 of the zebin whose kernel is the second mapping.
package main

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

const (
	amdLoad = 0x7f4200000000     // where the AMD code object's first byte was loaded
	genText = 0xffff800100400000 // where the text of one Intel kernel was
)

func main() {
	host := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, File: "/usr/bin/render", BuildID: "c0ffee", HasFunctions: true, HasFilenames: true, HasLineNumbers: true}
	amd := &profile.Mapping{ID: 2, Start: amdLoad, Limit: amdLoad + 0x4000, File: "shade.co", BuildID: "gpu-shade"}
	// The file offset 0x40 is where readelf finds .text.smooth: an unlinked object's mapping says which text it is.
	gen := &profile.Mapping{ID: 7, Start: genText, Limit: genText + 0x440, Offset: 0x40, BuildID: os.Args[1]}
	lost := &profile.Mapping{ID: 9, Start: 0x7f4300000000, Limit: 0x7f4300001000, File: "[jit]"}
	draw := &profile.Function{ID: 4, Name: "draw", SystemName: "_Z4drawv", Filename: "/src/render.cpp", StartLine: 9}
	location := func(id uint64, m *profile.Mapping, address uint64) *profile.Location {
		return &profile.Location{ID: id, Mapping: m, Address: address}
	}
	called := location(1, host, 0x401234)
	called.Line = []profile.Line{{Function: draw, Line: 12}}
	locations := []*profile.Location{
		called,
		location(2, amd, amdLoad+0x1940), // shade
		location(3, amd, amdLoad+0x1950), // blend inlined into shade
		location(4, gen, genText+0x290),  // mean inlined into smooth
		location(5, gen, genText+0x10),   // smooth
		location(6, lost, 0x7f4300000010),
		location(7, nil, amdLoad+0x1a10), // no mapping: found by its address
		location(8, amd, amdLoad+0x10),   // no text
	}
	samples := []*profile.Sample{}
	for number, leaf := range locations[1:] {
		samples = append(samples, &profile.Sample{
			Location: []*profile.Location{leaf, called},
			Value:    []int64{int64(number + 1), int64(number+1) * 1000},
			Label:    map[string][]string{"stall": {"memory"}},
			NumLabel: map[string][]int64{"eu": {int64(number)}},
		})
	}
	written := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "gpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "gpu", Unit: "nanoseconds"},
		Period:     1000,
		TimeNanos:  1700000000000000000,
		Sample:     samples,
		Mapping:    []*profile.Mapping{host, amd, gen, lost},
		Location:   locations,
		Function:   []*profile.Function{draw},
		Comments:   []string{"written by samples/profiles/pprof.go"},
	}
	if err := written.CheckValid(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if err := written.Write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
