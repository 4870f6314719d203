#include "cli/bench_kernels_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "device/host.h"
#include "kernels/bench.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

Json to_json(const BenchRow& row) {
  const bool counts_flops = row.flops > 0.0;
  Json json = {{"family", row.family},
               {"shape", row.shape},
               {"dtype", name_of(row.dtype)},
               {"seconds", row.seconds},
               {"unit", counts_flops ? "FLOP/s" : "byte/s"},
               {"count", counts_flops ? row.flops : row.bytes},
               {"formula", row.formula},
               {"rate", row.rate()},
               {"ceiling", row.ceiling},
               {"share_of_ceiling", row.share_of_ceiling()}};
  if (!row.baseline.empty()) {
    json["baseline"] = row.baseline;
    json["baseline_seconds"] = row.baseline_seconds;
  }
  return json;
}

Json to_json(const Ceilings& ceilings) {
  return {{"fp32_flops_per_s", ceilings.compute.fp32_flops_per_s},
          {"bf16_flops_per_s", ceilings.compute.bf16_flops_per_s},
          {"read_bytes_per_s", ceilings.read_bytes_per_s},
          {"copy_bytes_per_s", ceilings.copy_bytes_per_s}};
}

std::string heading(const std::string& family, const Ceilings& ceilings) {
  return fmt::format(
      "\n{}: of fp32 {:.1f} GFLOP/s, bf16 {:.1f} GFLOP/s, copy {:.1f} GB/s\n"
      "  {:<32} {:<5} {:>12} {:>9} {:<8} {:>7}  {}\n",
      family, ceilings.compute.fp32_flops_per_s * 1e-9, ceilings.compute.bf16_flops_per_s * 1e-9,
      ceilings.copy_bytes_per_s * 1e-9, "shape", "dtype", "median", "rate", "", "share", "counted");
}

std::string line_of(const BenchRow& row) {
  std::string line = fmt::format("  {:<32} {:<5} {:>9.1f} us {:>9.1f} {:<8} {:>5.1f} %  {}",
                                 row.shape, name_of(row.dtype), row.seconds * 1e6,
                                 row.rate() * 1e-9, row.flops > 0.0 ? "GFLOP/s" : "GB/s",
                                 100.0 * row.share_of_ceiling(), row.formula);
  if (!row.baseline.empty()) {
    line += fmt::format("; {} takes {:.2f}x", row.baseline, row.baseline_seconds / row.seconds);
  }
  return line + "\n";
}

std::string no_row(const std::string& filter) {
  std::string names;
  for (const BenchFamily& family : bench_families()) names += " " + family.name;
  return fmt::format(
      "--filter {}: no kernel's name contains it; names are a family, a shape and a dtype, such as "
      "\"norm forward layer 2048x384 bf16\"; families:{}",
      filter, names);
}

}  // namespace

Result<int> run_bench_kernels(const BenchKernelsOptions& options, CommandIo& io) {
  TRIREME_TRY(choice, choose_kernels(options.isa.empty() ? "auto" : options.isa));
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  ThreadTeam team(num_threads);
  const Buffer workspace = Buffer::allocate(num_threads * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  BenchContext context{*choice.kernels, stream, {}, options.filter, options.baseline};
  Json json = {{"cpu", cpu_model()},
               {"kernels", choice.kernels->name},
               {"threads", num_threads},
               {"ceilings", Json::object()},
               {"rows", Json::array()}};
  bool measured_since_last_rows = false;
  for (const BenchFamily& family : bench_families()) {
    if (!options.family.empty() && options.family != family.name) continue;
    if (!measured_since_last_rows) context.ceilings = measure_ceilings(stream, choice.isa);
    std::vector<BenchRow> rows;
    family.bench(rows, context);
    measured_since_last_rows = rows.empty();
    if (rows.empty()) continue;
    if (!options.json && json["rows"].empty()) {
      io.out << fmt::format(
          "{}, {} threads, {} kernels; ceilings are measured before each family: multiply-adds in "
          "registers, bytes read plus written by a copy\n",
          cpu_model(), num_threads, choice.kernels->name);
    }
    json["ceilings"][family.name] = to_json(context.ceilings);
    if (!options.json) io.out << heading(family.name, context.ceilings);
    for (const BenchRow& row : rows) {
      json["rows"].push_back(to_json(row));
      if (!options.json) io.out << line_of(row);
    }
    io.out.flush();
  }
  if (json["rows"].empty()) return Error{ErrorKind::Usage, no_row(options.filter)};
  if (options.json) io.out << json.dump() << "\n";
  return 0;
}

}  // namespace trireme
