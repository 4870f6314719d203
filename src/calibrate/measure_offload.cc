#include "calibrate/measure_offload.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "base/hash.h"
#include "runtime/offload_file.h"

namespace trireme {
namespace {

constexpr int64_t kPieceBytes = int64_t{8} << 20;
constexpr int kPieces = 4;
constexpr int kTurns = 3;  // of which the fastest counts

}  // namespace

double measure_offload(const std::string& folder) {
  OffloadFile file(folder + "/offload.measured", kPieces * kPieceBytes);
  std::vector<std::byte> buffer(static_cast<size_t>(kPieceBytes), std::byte{1});
  const std::span<std::byte> bytes(buffer);
  uint64_t hash = 0;
  const auto write_all = [&] {
    for (int piece = 0; piece < kPieces; ++piece) {
      file.write(piece * kPieceBytes, bytes);
      hash ^= hash64(bytes, 0);
    }
  };
  const auto read_all = [&] {
    for (int piece = 0; piece < kPieces; ++piece) {
      file.read(piece * kPieceBytes, bytes);
      hash ^= hash64(bytes, 0);
    }
  };
  write_all();  // the first one finds the room
  double fastest_s = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    read_all();
    write_all();
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    fastest_s = std::min(fastest_s, elapsed.count());
  }
  volatile uint64_t keep = hash;
  static_cast<void>(keep);
  return 2.0 * kPieces * double(kPieceBytes) / fastest_s;
}

}  // namespace trireme
