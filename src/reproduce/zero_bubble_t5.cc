// Qi et al. 2024, "Zero Bubble Pipeline Parallelism" (arXiv:2401.10241): table 6 has profiled times
// of F, B, W and a transfer in ms, and table 5 the bubble rates that the authors computed from
// them.

#include <fmt/format.h>

#include "program/make_schedule.h"
#include "reproduce/printed_digits.h"
#include "reproduce/tables.h"
#include "sim/simulate.h"

namespace trireme {
namespace {

struct BubbleRow {
  const char* model;
  int num_stages, num_microbatches;
  double f_ms, b_ms, w_ms, transfer_ms;
  double one_f_one_b, zb_h1, zb_h2;  // bubble rates
};

constexpr int kBubbleDigits = 4;

constexpr BubbleRow kBubbleRows[] = {
    {"1.5B", 8, 24, 18.522, 18.086, 9.337, 0.601, 0.2431, 0.1585, 0.1083},
    {"1.5B", 8, 32, 18.513, 18.086, 9.331, 0.626, 0.1985, 0.1242, 0.0837},
    {"1.5B", 8, 64, 18.546, 18.097, 9.321, 0.762, 0.1240, 0.0674, 0.0444},
    {"6.2B", 8, 24, 29.718, 29.444, 19.927, 0.527, 0.2347, 0.1323, 0.0698},
    {"6.2B", 8, 32, 29.802, 29.428, 19.530, 0.577, 0.1898, 0.1045, 0.0559},
    {"6.2B", 8, 64, 29.935, 29.621, 19.388, 0.535, 0.1091, 0.0554, 0.0294},
    {"14.6B", 16, 48, 11.347, 11.248, 8.132, 0.377, 0.2552, 0.1397, 0.0672},
    {"14.6B", 16, 64, 11.307, 11.254, 8.101, 0.379, 0.2082, 0.1088, 0.0516},
    {"14.6B", 16, 128, 11.325, 11.308, 8.109, 0.378, 0.1251, 0.0576, 0.0266},
    {"28.3B", 32, 96, 10.419, 10.207, 7.715, 0.408, 0.2646, 0.1421, 0.0641},
    {"28.3B", 32, 128, 10.408, 10.204, 7.703, 0.408, 0.2168, 0.1106, 0.0490},
    {"28.3B", 32, 256, 10.402, 10.248, 7.698, 0.460, 0.1352, 0.0594, 0.0257},
};

Result<ReproducedRow> bubble_of(const BubbleRow& row, const char* kind, double published) {
  TRIREME_TRY(schedule, make_schedule(kind, {row.num_stages, row.num_microbatches, 0}));
  const Costs costs = {.stages = {{.f_s = row.f_ms, .b_s = row.b_ms, .w_s = row.w_ms}},
                       .link = {.latency_s = row.transfer_ms}};
  TRIREME_TRY(simulation, simulate(schedule, costs));
  return ReproducedRow{
      .row = fmt::format("{}: {} stages, {} micro-batches, {}", row.model, row.num_stages,
                         row.num_microbatches, kind),
      .measured = published,
      .predicted = as_printed(simulation.bubbles.of_span, kBubbleDigits, published)};
}

}  // namespace

Result<Reproduction> reproduce_zero_bubble_t5() {
  Reproduction result;
  result.source = "Qi et al. 2024 (arXiv:2401.10241), tables 5 and 6";
  result.table = {.quantity = "bubble rate", .unit = "", .digits = kBubbleDigits};
  result.notes = {
      "The authors computed these rates from the times of their table 6, so they must agree in "
      "every printed digit.",
      "The rate is the idle share of the longest span from a stage's first operation to its last; "
      "a transfer delays its receiver only.",
  };
  for (const BubbleRow& row : kBubbleRows) {
    for (const auto& [kind, published] :
         {std::pair{"1f1b", row.one_f_one_b}, {"zb_h1", row.zb_h1}, {"zb_h2", row.zb_h2}}) {
      TRIREME_TRY(reproduced, bubble_of(row, kind, published));
      result.table.rows.push_back(reproduced);
    }
  }
  return result;
}

}  // namespace trireme
