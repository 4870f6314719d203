#include "calibrate/measure_offload.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <span>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "kernels/bench_tensors.h"
#include "runtime/offload_file.h"

namespace trireme {
namespace {

constexpr int64_t kPieceBytes = int64_t{16} << 20;
constexpr int kTurns = 3;                // of which the fastest counts
constexpr double kSecondsOfTurn = 0.08;  // of compute, alone and beside the file
constexpr double kMostShare = 0.9;       // what a hardware file may say
constexpr int64_t kRows = 256, kCols = 1024, kDepth = 1024;  // of the product that is computed

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The file, and what is done to every piece of it.
class MeasuredFile {
 public:
  MeasuredFile(const std::string& folder, int64_t bytes)
      : num_pieces_(std::max<int64_t>(1, bytes / kPieceBytes)),
        file_(folder + "/offload.measured", num_pieces_ * kPieceBytes),
        buffer_(size_t(kPieceBytes), std::byte{1}) {}

  void write_all() {
    for (int64_t piece = 0; piece < num_pieces_; ++piece) write(piece);
  }
  void read_all() {
    for (int64_t piece = 0; piece < num_pieces_; ++piece) read(piece);
  }
  // Reads and writes one piece after the other, as an update does.
  void update_until(const std::atomic<bool>& is_over) {
    for (int64_t piece = 0; !is_over; piece = (piece + 1) % num_pieces_) {
      read(piece);
      write(piece);
    }
  }
  double bytes() const { return double(num_pieces_ * kPieceBytes); }
  uint64_t hash() const { return hash_; }

 private:
  void write(int64_t piece) {
    file_.write(piece * kPieceBytes, buffer_);
    hash_ ^= hash64(std::span<const std::byte>(buffer_), 0);
  }
  void read(int64_t piece) {
    file_.read(piece * kPieceBytes, buffer_);
    hash_ ^= hash64(std::span<const std::byte>(buffer_), 0);
  }

  int64_t num_pieces_;
  OffloadFile file_;
  std::vector<std::byte> buffer_;
  uint64_t hash_ = 0;
};

// Products that all threads of the stream make in a second.
class MeasuredCompute {
 public:
  MeasuredCompute(const KernelTable& kernels, Stream& stream)
      : kernels_(kernels),
        stream_(stream),
        a_(varied(DType::F32, Shape{kRows, kDepth})),
        b_(varied(DType::F32, Shape{kCols, kDepth})),
        c_(DType::F32, Shape{kRows, kCols}) {}

  double products_per_s() const {
    const auto begin = std::chrono::steady_clock::now();
    int64_t count = 0;
    double elapsed_s = 0.0;
    while (elapsed_s < kSecondsOfTurn) {
      kernels_.matmul(stream_,
                      {.form = MatmulForm::NT, .a = matrix(a_), .b = matrix(b_), .c = matrix(c_)});
      ++count;
      elapsed_s = seconds_since(begin);
    }
    return double(count) / elapsed_s;
  }

 private:
  const KernelTable& kernels_;
  Stream& stream_;
  Tensor a_, b_, c_;
};

template <typename Call>
double fastest_s(const Call& call) {
  double seconds = std::numeric_limits<double>::infinity();
  for (int turn = 0; turn < kTurns; ++turn) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    seconds = std::min(seconds, seconds_since(begin));
  }
  return seconds;
}

double best_rate(const MeasuredCompute& compute) {
  double rate = 0.0;
  for (int turn = 0; turn < kTurns; ++turn) rate = std::max(rate, compute.products_per_s());
  return rate;
}

// Share of the compute that is lost while a thread moves the file.
double share_lost(const MeasuredCompute& compute, MeasuredFile& file) {
  const double alone = best_rate(compute);
  std::atomic<bool> is_over = false;
  std::thread mover([&] { file.update_until(is_over); });
  const double beside = best_rate(compute);
  is_over = true;
  mover.join();
  return std::clamp(1.0 - beside / alone, 0.0, kMostShare);
}

}  // namespace

MeasuredOffload measure_offload(const std::string& folder, int64_t bytes,
                                const KernelTable& kernels, Stream& stream) {
  MeasuredFile file(folder, std::min(bytes, kMostMeasuredOffloadBytes));
  file.write_all();  // the first one finds the room
  MeasuredOffload measured;
  measured.read_bytes_per_s = file.bytes() / fastest_s([&] { file.read_all(); });
  measured.write_bytes_per_s = file.bytes() / fastest_s([&] { file.write_all(); });
  measured.share = share_lost(MeasuredCompute(kernels, stream), file);
  volatile uint64_t keep = file.hash();
  static_cast<void>(keep);
  return measured;
}

void MeasuredOffload::set(int num_ranks, Hardware& hardware) const {
  hardware.offload_bytes_per_s = read_bytes_per_s / num_ranks;
  hardware.offload_write_bytes_per_s = write_bytes_per_s / num_ranks;
  hardware.offload_share = share;
}

}  // namespace trireme
