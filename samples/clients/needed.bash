# Sourced by the builds of the clients in other languages, which say what they need. It sets $out, $protos (symd's) and $googleapis
# (google/rpc/*.proto: those of symd's Python environment, or below $GOOGLEAPIS).
missing=()
# program NAME PACKAGE: a program of Debian's package
program() { command -v "$1" >/dev/null || missing+=("$2"); }
# library NAME PACKAGE: a library that pkg-config knows
library() { pkg-config --exists "$1" 2>/dev/null || missing+=("$2"); }
# end_of_needs: name all that is missing at once, before anything is built
end_of_needs() {
	program protoc protobuf-compiler
	protoc --descriptor_set_out=/dev/null google/protobuf/timestamp.proto 2>/dev/null || missing+=(libprotobuf-dev)
	if [ ${#missing[@]} -gt 0 ]; then
		echo "missing packages of Debian: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	if [ ! -f "$googleapis/google/rpc/status.proto" ]; then
		echo "google/rpc/status.proto is not there: pip install googleapis-common-protos, or set GOOGLEAPIS to the folder that has google/rpc" >&2
		exit 1
	fi
}
out=$(mkdir -p "$1" && cd "$1" && pwd)
protos=$(cd "$(dirname "${BASH_SOURCE[0]}")/../../protos" && pwd)
googleapis=${GOOGLEAPIS:-$(python3 -c 'import google.rpc; print(*google.rpc.__path__)' 2>/dev/null || true)/../..}
