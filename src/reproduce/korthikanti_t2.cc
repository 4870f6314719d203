// Korthikanti et al. 2022 (arXiv:2205.05198), table 2: bytes of activations that a layer keeps for
// a micro-batch, as formulas of s, b, h, a and t. They are evaluated for the models of table 3.

#include <fmt/format.h>

#include <cmath>

#include "planner/trainer_rules.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

// The symbols of the paper.
struct ActivationSymbols {
  double s, b, h, a, t;
};

struct ActivationFormula {
  const char* name;
  bool has_tp, has_sequence;
  Recompute recompute;
  double (*bytes)(const ActivationSymbols&);
};

constexpr ActivationFormula kActivationFormulas[] = {
    {"no parallelism", false, false, Recompute::None,
     [](const ActivationSymbols& m) { return m.s * m.b * m.h * (34 + 5 * m.a * m.s / m.h); }},
    {"tensor", true, false, Recompute::None,
     [](const ActivationSymbols& m) {
       return m.s * m.b * m.h * (10 + 24 / m.t + 5 * m.a * m.s / (m.h * m.t));
     }},
    {"tensor + sequence", true, true, Recompute::None,
     [](const ActivationSymbols& m) {
       return m.s * m.b * m.h * (34 / m.t + 5 * m.a * m.s / (m.h * m.t));
     }},
    {"tensor + selective", true, false, Recompute::Selective,
     [](const ActivationSymbols& m) { return m.s * m.b * m.h * (10 + 24 / m.t); }},
    {"tensor + sequence + selective", true, true, Recompute::Selective,
     [](const ActivationSymbols& m) { return m.s * m.b * m.h * 34 / m.t; }},
    {"full", true, false, Recompute::Full,
     [](const ActivationSymbols& m) { return 2 * m.s * m.b * m.h; }},
};

double layer_bytes(const PublishedRun& run, const ActivationFormula& formula) {
  StageShape shape;
  shape.micro_sequences = run.micro_sequences;
  shape.recompute = formula.recompute;
  shape.tp = formula.has_tp ? run.parallel.tp : 1;
  shape.sequence_parallel = formula.has_sequence;
  return kept_bytes(with_defaults(config_of(run).model, 0), megatron_with_scores(), shape);
}

}  // namespace

Result<Reproduction> reproduce_korthikanti_t2() {
  Reproduction result;
  result.source = "Korthikanti et al. 2022 (arXiv:2205.05198), tables 2 and 3";
  result.table = {.quantity = "activations of a layer", .unit = "bytes", .digits = 0};
  result.notes = {
      "The paper gives formulas; ours adds up every value that Megatron-LM keeps, so that both "
      "must "
      "agree to the byte."};
  for (const PublishedRun& run : korthikanti_t5_runs()) {
    if (run.recompute != Recompute::Full) continue;  // each model once
    const GptShape& model = run.model;
    const ActivationSymbols symbols = {double(model.seq_len), double(run.micro_sequences),
                                       double(model.d_model), double(model.heads),
                                       double(run.parallel.tp)};
    for (const ActivationFormula& formula : kActivationFormulas) {
      result.table.rows.push_back(
          {.row = fmt::format("{}: {}", run.row.substr(0, run.row.find(' ')), formula.name),
           .measured = std::round(formula.bytes(symbols)),
           .predicted = std::round(layer_bytes(run, formula))});
    }
  }
  return result;
}

}  // namespace trireme
