// Specs and records of sweeps. The first byte of the input chooses which: any text is refused with
// a reason, or its values are within their range, or the record reads back as it was read.

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/sealed_json.h"
#include "sweep/lr_range.h"
#include "sweep/median_rule.h"
#include "sweep/sweep_page.h"
#include "sweep/sweep_points.h"
#include "sweep/sweep_record.h"
#include "sweep/trial_curve.h"

namespace {

using namespace trireme;

void check_values(const SweptKey& key) {
  if (key.spacing == Spacing::List) return;
  double before = -INFINITY;
  for (const std::string& text : key.values) {
    double value = NAN;
    std::from_chars(text.data(), text.data() + text.size(), value);
    const double slack = key.is_integer ? 1.0 : 0.0;
    if (!(value > before) || value < key.from - slack || value > key.to + slack) std::abort();
    before = value;
  }
}

void check_spec(std::string_view text) {
  const Result<SweptKey> key = parse_swept_key(text);
  if (!key.ok()) {
    if (key.error().message.empty()) std::abort();
    return;
  }
  check_values(*key);
  if (key->spacing == Spacing::List && key->values.empty()) std::abort();
  const auto points = random_points({*key}, 3, 1);
  if (points.ok() && points->size() != 3) std::abort();
  if (!key->values.empty() && grid_points({*key})->size() != key->values.size()) std::abort();
}

void check_record(std::string_view text) {
  const Result<SweepRecord> record = parse_sweep_json(text);
  if (!record.ok()) {
    if (record.error().message.empty()) std::abort();
    return;
  }
  const std::string written = sweep_json(*record);
  const Result<SweepRecord> again = parse_sweep_json(written);
  if (!again.ok() || sweep_json(*again) != written) std::abort();
  if (record->ranking().size() != record->trials.size()) std::abort();
  sweep_page(*record, std::vector<TrialCurve>(record->trials.size()),
             {"/fuzz", "/bin/trireme", "/"});
}

void check_curve(std::string_view text) {
  const TrialCurve curve = parse_trial_curve(text);
  const MedianRule rule(curve.last_step() + 1, 0.1);
  rule.hopeless_rung(rule.losses_at_rungs(curve), {{1.0}, {2.0}});
  find_lr(curve, curve.last_step());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      check_spec(text);
      break;
    case 1:
      check_record(text);
      break;
    case 2:  // a checksum would keep the fuzzer out
      if (text.find('}') != text.npos && text.find_last_not_of(" \t\r\n") == text.rfind('}')) {
        check_record(seal_json(text));
      }
      break;
    default:
      check_curve(text);
  }
  return 0;
}
