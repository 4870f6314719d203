// A table of a public lecture on distributed training (ECE7115): the largest model whose state fits
// on eight A100 80GB, with 2 bytes of parameters, 2 of gradients, 4 of fp32 master weights and 4 of
// bf16 moments.

#include "planner/trainer_rules.h"
#include "reproduce/printed_digits.h"
#include "reproduce/tables.h"

namespace trireme {
namespace {

struct LectureRow {
  const char* scheme;
  int zero;
  double billions;
  int digits;
};

constexpr int kLectureRanks = 8;
constexpr double kLectureGb = 80.0;

constexpr LectureRow kLectureRows[] = {
    {"DDP", 0, 6.66, 2},
    {"ZeRO 1", 1, 16, 0},
    {"ZeRO 2", 2, 24.62, 2},
    {"ZeRO 3", 3, 53.33, 2},
};

}  // namespace

Result<Reproduction> reproduce_lecture_8xa100() {
  Reproduction result;
  result.source = "Lecture 4 of ECE7115: largest models on eight A100 80GB";
  result.table = {.quantity = "largest model", .unit = "billions", .digits = 2};
  result.notes = {
      "12 bytes for each parameter: 2 of parameters, 2 of gradients and 8 of optimizer state; "
      "activations are not counted."};
  for (const auto& [scheme, zero, billions, digits] : kLectureRows) {
    const double fits = kLectureGb / kBf16MomentState.shared(zero, kLectureRanks).total();
    result.table.rows.push_back(
        {.row = scheme, .measured = billions, .predicted = as_printed(fits, digits, billions)});
  }
  return result;
}

}  // namespace trireme
