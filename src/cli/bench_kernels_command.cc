#include "cli/bench_kernels_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>

#include "base/json_text.h"
#include "device/host.h"
#include "kernels/bench.h"
#include "kernels/ceilings.h"
#include "train/kernel_choice.h"

namespace trireme {
namespace {

using Json = nlohmann::ordered_json;

// Returns the peak by which the share of a row is computed.
double ceiling_of(const BenchRow& row, const Ceilings& ceilings) {
  if (!row.counts_flops()) return ceilings.copy_bytes_per_s;
  return row.dtype == DType::BF16 ? ceilings.compute.bf16_flops_per_s
                                  : ceilings.compute.fp32_flops_per_s;
}

// A ceiling is the speed of an undisturbed machine, so the largest measurement counts.
void raise(Ceilings& ceilings, const Ceilings& measured) {
  const auto raise_one = [](double& ceiling, double value) { ceiling = std::max(ceiling, value); };
  raise_one(ceilings.compute.fp32_flops_per_s, measured.compute.fp32_flops_per_s);
  raise_one(ceilings.compute.bf16_flops_per_s, measured.compute.bf16_flops_per_s);
  raise_one(ceilings.read_bytes_per_s, measured.read_bytes_per_s);
  raise_one(ceilings.copy_bytes_per_s, measured.copy_bytes_per_s);
}

Json to_json(const BenchRow& row, const Ceilings& ceilings) {
  Json json = {{"family", row.family},
               {"shape", row.shape},
               {"dtype", name_of(row.dtype)},
               {"seconds", row.seconds},
               {"unit", row.counts_flops() ? "FLOP/s" : "byte/s"},
               {"count", row.counts_flops() ? row.flops : row.bytes},
               {"formula", row.formula},
               {"rate", row.rate()},
               {"ceiling", ceiling_of(row, ceilings)},
               {"share_of_ceiling", row.rate() / ceiling_of(row, ceilings)}};
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

std::string line_of(const BenchRow& row, const Ceilings& ceilings) {
  std::string line = fmt::format("  {:<32} {:<5} {:>9.1f} us {:>9.1f} {:<8} {:>5.1f} %  {}",
                                 row.shape, name_of(row.dtype), row.seconds * 1e6,
                                 row.rate() * 1e-9, row.counts_flops() ? "GFLOP/s" : "GB/s",
                                 100.0 * row.rate() / ceiling_of(row, ceilings), row.formula);
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
  TRIREME_TRY(choice, choose_kernels(choice_of<IsaChoice>(options.isa).value_or(IsaChoice::Auto)));
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  ThreadTeam team(num_threads);
  const Buffer workspace = Buffer::allocate(num_threads * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  const BenchContext context{*choice.kernels, stream, options.filter, options.baseline};
  Ceilings ceilings = measure_ceilings(stream, choice.isa);
  Json json = {{"cpu", cpu_model()},
               {"kernels", choice.kernels->name},
               {"threads", num_threads},
               {"ceilings", Json::object()},
               {"rows", Json::array()}};
  for (const BenchFamily& family : bench_families()) {
    if (!options.family.empty() && options.family != family.name) continue;
    std::vector<BenchRow> rows;
    family.bench(rows, context);
    if (rows.empty()) continue;
    raise(ceilings, measure_ceilings(stream, choice.isa));
    if (!options.json && json["rows"].empty()) {
      io.out << fmt::format(
          "{}, {} threads, {} kernels; ceilings are measured beside each family, multiply-adds in "
          "registers and bytes read plus written by a copy; the greatest so far counts\n",
          cpu_model(), num_threads, choice.kernels->name);
    }
    json["ceilings"][family.name] = to_json(ceilings);
    if (!options.json) io.out << heading(family.name, ceilings);
    for (const BenchRow& row : rows) {
      json["rows"].push_back(to_json(row, ceilings));
      if (!options.json) io.out << line_of(row, ceilings);
    }
    io.out.flush();
  }
  if (json["rows"].empty()) return Error{ErrorKind::Usage, no_row(options.filter)};
  if (options.json) io.out << json_text(json) << "\n";
  return 0;
}

}  // namespace trireme
