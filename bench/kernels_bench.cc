// Times the kernels beside this machine's ceilings, measured in the same run.
//   kernels_bench [--threads N] [--isa NAME] [--family NAME] [--json]

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "kernels/bench.h"

namespace trireme {
namespace {

struct Options {
  int num_threads = int(std::thread::hardware_concurrency());
  std::string isa;
  std::string family;
  bool json = false;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    const bool has_value = i + 1 < argc;
    if (option == "--json") {
      options.json = true;
    } else if (option == "--threads" && has_value) {
      options.num_threads = std::max(1, std::atoi(argv[++i]));
    } else if (option == "--isa" && has_value) {
      options.isa = argv[++i];
    } else if (option == "--family" && has_value) {
      options.family = argv[++i];
    } else {
      fmt::print(stderr, "kernels_bench [--threads N] [--isa NAME] [--family NAME] [--json]\n");
      std::exit(2);
    }
  }
  return options;
}

void print_json(const BenchRow& row, const KernelTable& kernels, int num_threads) {
  nlohmann::json line = {{"family", row.family},
                         {"shape", row.shape},
                         {"dtype", name_of(row.dtype)},
                         {"isa", kernels.name},
                         {"threads", num_threads},
                         {"seconds", row.seconds},
                         {"gflops", row.flops / row.seconds * 1e-9},
                         {"gbytes_per_s", row.bytes / row.seconds * 1e-9},
                         {"share_of_ceiling", row.share_of_ceiling}};
  if (!row.baseline.empty()) {
    line["baseline"] = row.baseline;
    line["baseline_seconds"] = row.baseline_seconds;
  }
  fmt::print("{}\n", line.dump());
}

void print_text(const BenchRow& row) {
  fmt::print("{:11} {:32} {:5} {:10.1f} us {:8.1f} {:8} {:5.1f} %", row.family, row.shape,
             name_of(row.dtype), row.seconds * 1e6,
             (row.flops > 0 ? row.flops : row.bytes) / row.seconds * 1e-9,
             row.flops > 0 ? "GFLOP/s" : "GB/s", 100.0 * row.share_of_ceiling);
  if (!row.baseline.empty()) {
    fmt::print("   {} {:.2f}x", row.baseline, row.baseline_seconds / row.seconds);
  }
  fmt::print("\n");
}

int run(const Options& options) {
  const std::vector<Isa> isas = supported_isas();
  if (isas.empty()) return 2;
  Isa isa = isas.back();
  for (Isa candidate : isas) {
    if (name_of(candidate) == options.isa) isa = candidate;
  }
  ThreadTeam team(options.num_threads);
  Buffer workspace = Buffer::allocate(options.num_threads * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  const BenchContext context{cpu_kernels(isa), stream, measure_ceilings(stream, isa)};
  const Ceilings& ceilings = context.ceilings;
  if (!options.json) {
    fmt::print(
        "{} threads, {}: fp32 {:.1f} GFLOP/s, bf16 {:.1f} GFLOP/s, read {:.1f} GB/s, "
        "copy {:.1f} GB/s\n",
        options.num_threads, context.kernels.name, ceilings.compute.fp32_flops_per_s * 1e-9,
        ceilings.compute.bf16_flops_per_s * 1e-9, ceilings.read_bytes_per_s * 1e-9,
        ceilings.copy_bytes_per_s * 1e-9);
  }
  struct Family {
    const char* name;
    void (*bench)(std::vector<BenchRow>&, const BenchContext&);
  };
  for (const Family& family :
       {Family{"matmul", bench_matmul}, Family{"attention", bench_attention},
        Family{"norm", bench_norm}, Family{"activation", bench_activation},
        Family{"embedding", bench_embedding}, Family{"rope", bench_rope},
        Family{"loss", bench_cross_entropy}, Family{"dropout", bench_dropout},
        Family{"elementwise", bench_elementwise}, Family{"optimizer", bench_optimizer}}) {
    if (!options.family.empty() && options.family != family.name) continue;
    std::vector<BenchRow> rows;
    family.bench(rows, context);
    for (const BenchRow& row : rows) {
      options.json ? print_json(row, context.kernels, options.num_threads) : print_text(row);
    }
  }
  return 0;
}

}  // namespace
}  // namespace trireme

int main(int argc, char** argv) { return trireme::run(trireme::parse(argc, argv)); }
