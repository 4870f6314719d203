// Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models"
// (arXiv:1910.02054), table 1: GB of model state on a device, with 16 bytes for each parameter.

#include <fmt/format.h>

#include "planner/trainer_rules.h"
#include "reproduce/printed_digits.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

// A number and the digits behind its point, as printed.
struct PrintedNumber {
  double value;
  int digits;
};

struct ZeroRow {
  int ranks;
  PrintedNumber gb[3][3];  // [model][level - 1]
};

struct ZeroModel {
  const char* name;
  double billions;
};

constexpr ZeroModel kZeroModels[] = {{"7.5B", 7.5}, {"128B", 128.0}, {"1T", 1000.0}};

constexpr ZeroRow kZeroRows[] = {
    {1,
     {{{120, 0}, {120, 0}, {120, 0}},
      {{2048, 0}, {2048, 0}, {2048, 0}},
      {{16000, 0}, {16000, 0}, {16000, 0}}}},
    {4,
     {{{52.5, 1}, {41.3, 1}, {30, 0}},
      {{896, 0}, {704, 0}, {512, 0}},
      {{7000, 0}, {5500, 0}, {4000, 0}}}},
    {16,
     {{{35.6, 1}, {21.6, 1}, {7.5, 1}},
      {{608, 0}, {368, 0}, {128, 0}},
      {{4750, 0}, {2875, 0}, {1000, 0}}}},
    {64,
     {{{31.4, 1}, {16.6, 1}, {1.88, 2}},
      {{536, 0}, {284, 0}, {32, 0}},
      {{4187, 0}, {2218, 0}, {250, 0}}}},
    {256,
     {{{30.4, 1}, {15.4, 1}, {0.47, 2}},
      {{518, 0}, {263, 0}, {8, 0}},
      {{4046, 0}, {2054, 0}, {62.5, 1}}}},
    {1024,
     {{{30.1, 1}, {15.1, 1}, {0.12, 2}},
      {{513, 0}, {257, 0}, {2, 0}},
      {{4011, 0}, {2013, 0}, {15.6, 1}}}},
};

}  // namespace

Result<Reproduction> reproduce_zero_t1() {
  Reproduction result;
  result.source = "Rajbhandari et al. 2020 (arXiv:1910.02054), table 1";
  result.table = {.quantity = "model state", .unit = "GB", .digits = 2};
  result.notes = {
      "The paper counts 2 bytes of parameters, 2 of gradients and 12 of optimizer state; it rounds "
      "some numbers and cuts others off."};
  for (const ZeroRow& row : kZeroRows) {
    for (size_t model = 0; model < std::size(kZeroModels); ++model) {
      for (int level = 1; level <= 3; ++level) {
        const auto& [printed, digits] = row.gb[model][level - 1];
        const double gb =
            kZeroModels[model].billions * kZeroPaperState.shared(level, row.ranks).total();
        result.table.rows.push_back(
            {.row = fmt::format("{} on {}: ZeRO {}", kZeroModels[model].name, row.ranks, level),
             .measured = printed,
             .predicted = as_printed(gb, digits, printed)});
      }
    }
  }
  return result;
}

}  // namespace trireme
