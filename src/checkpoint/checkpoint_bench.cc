#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/file.h"
#include "base/hash.h"
#include "checkpoint/load.h"
#include "checkpoint/save.h"

// Measures saving and loading of the state of gpt2-124m (fp32 parameters and two moments), and
// beside it the rate of the disk for the same bytes, written and synced, then read back. Usage:
// checkpoint_bench [FOLDER]
namespace trireme {
namespace {

namespace fs = std::filesystem;

double seconds_of(const std::function<void()>& body) {
  const auto begin = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

struct State {
  std::vector<TensorPiece> pieces;
  std::vector<float> memory;
  double gigabytes() const { return double(memory.size()) * 4e-9; }
};

State make_state() {
  std::vector<std::pair<std::string, Shape>> params = {{"wte", {50257, 768}}, {"wpe", {1024, 768}}};
  for (int layer = 0; layer < 12; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    params.insert(params.end(), {{prefix + "attn.wqkv", {2304, 768}},
                                 {prefix + "attn.wo", {768, 768}},
                                 {prefix + "mlp.w_up", {3072, 768}},
                                 {prefix + "mlp.w_down", {768, 3072}},
                                 {prefix + "norm1.gain", {768}}});
  }
  State state;
  int64_t total = 0;
  for (const auto& [name, shape] : params) total += 3 * shape.num_elements();
  state.memory.resize(static_cast<size_t>(total));
  for (size_t i = 0; i < state.memory.size(); ++i) state.memory[i] = float(i % 1000003);
  float* data = state.memory.data();
  for (const char* prefix : {"", "exp_avg/", "exp_avg_sq/"}) {
    for (const auto& [name, shape] : params) {
      state.pieces.push_back({prefix + name, shape, DType::F32, Slice::whole(shape), data});
      data += shape.num_elements();
    }
  }
  return state;
}

void print(const char* what, double gigabytes, double seconds) {
  fmt::print("{:<34} {:6.2f} s {:7.2f} GB/s\n", what, seconds, gigabytes / seconds);
}

void drop_from_page_cache(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const int fd = ::open(entry.path().c_str(), O_RDONLY);
    ::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    ::close(fd);
  }
}

void check(const Status& status) {
  if (!status.ok()) fmt::print(stderr, "{}\n", status.error().message);
}

void run(const std::string& folder) {
  State state = make_state();
  const double gigabytes = state.gigabytes();
  fmt::print("{} tensors, {:.2f} GB, in {}\n", state.pieces.size(), gigabytes, folder);
  fs::create_directories(folder);

  print("write and fsync alone", gigabytes, seconds_of([&] {
          auto file = AtomicFile::create(folder + "/plain");
          check(file->write(std::as_bytes(std::span(state.memory))));
          check(file->commit());
        }));
  fs::remove(folder + "/plain");
  print("XXH3-64 alone, one thread", gigabytes, seconds_of([&] {
          if (hash64(std::as_bytes(std::span(state.memory))) == 0) fmt::print("\n");
        }));
  for (int64_t step : {1, 2}) {
    print("save", gigabytes, seconds_of([&] {
            check([&]() -> Status {
              const auto path = save_checkpoint(folder, {.step = step}, {}, state.pieces);
              return path.ok() ? Status(Done{}) : path.error();
            }());
          }));
  }
  const int num_threads = static_cast<int>(std::thread::hardware_concurrency());
  std::vector<TensorRequest> requests;
  for (const TensorPiece& piece : state.pieces) {
    requests.push_back(
        {piece.name, piece.full_shape, piece.dtype, piece.slice, const_cast<void*>(piece.data)});
  }
  drop_from_page_cache(folder + "/step-000002");
  for (const char* what : {"load, from the disk", "load, from the page cache"}) {
    const auto checkpoint = Checkpoint::open(folder + "/step-000002");
    print(what, gigabytes,
          seconds_of([&] { check(checkpoint->read(requests, {.num_threads = num_threads})); }));
  }
  const auto checkpoint = Checkpoint::open(folder + "/step-000002");
  print("verify", gigabytes, seconds_of([&] {
          if (!checkpoint->verify(num_threads).empty()) fmt::print("damaged\n");
        }));
  fs::remove_all(folder);
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) { trireme::run(argc > 1 ? argv[1] : "checkpoint_bench.tmp"); }
