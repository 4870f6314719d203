// A table of public lectures on distributed training: the state of four models with mixed precision
// and Adam, 16 bytes for each parameter, in GB and as a multiple of that of BERT-Large.

#include <fmt/format.h>

#include "planner/trainer_rules.h"
#include "reproduce/printed_digits.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct LectureModel {
  const char* name;
  double billions;  // as the lectures round them
  double gb;
  int gb_digits;
  double times;
  int times_digits;
};

constexpr LectureModel kLectureModels[] = {
    {"BERT-Large", 0.32, 5.12, 2, 1.0, 0},
    {"GPT-2", 1.5, 24.0, 0, 4.7, 1},
    {"Turing-NLG", 17.2, 275.0, 0, 54.0, 0},
    {"GPT-3", 175.0, 2800.0, 0, 547.0, 0},
};

double state_gb(const LectureModel& model) { return model.billions * kZeroPaperState.total(); }

}  // namespace

Result<Reproduction> reproduce_lecture_models() {
  Reproduction result;
  result.source = "Lectures on distributed training: memory of BERT-Large to GPT-3";
  result.table = {.quantity = "model state", .unit = "GB or times", .digits = 2};
  result.notes = {
      "16 bytes for each parameter: 2 of parameters, 2 of gradients and 12 of optimizer state; "
      "activations are not counted.",
      "The sizes are those of the lectures. `trireme plan` prints the state of the files "
      "bert-large, "
      "gpt2-1.5b, turing-nlg and gpt3-175b of models/, which have 0.33, 1.56, 17.2 and 175 billion "
      "parameters."};
  const double smallest = state_gb(kLectureModels[0]);
  for (const LectureModel& model : kLectureModels) {
    const double gb = state_gb(model);
    const auto add = [&](const char* what, double printed, double ours, int digits) {
      result.table.rows.push_back({.row = fmt::format("{}: {}", model.name, what),
                                   .part = what,
                                   .measured = printed,
                                   .predicted = as_printed(ours, digits, printed)});
    };
    add("GB", model.gb, gb, model.gb_digits);
    add("times BERT-Large", model.times, gb / smallest, model.times_digits);
  }
  return result;
}

}  // namespace trireme
