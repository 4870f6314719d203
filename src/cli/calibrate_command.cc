#include "cli/calibrate_command.h"

#include <fmt/format.h>

#include <filesystem>
#include <ostream>

#include "base/file.h"
#include "calibrate/calibrate.h"
#include "device/host.h"

namespace trireme {
namespace {

// Below this share the others change nothing that a repetition would not find.
constexpr double kTellOthers = 0.05;

std::string text_of(const Calibration& calibration, Isa isa) {
  std::string text =
      fmt::format("# Measured by `trireme calibrate` in {:.0f} s: {} threads, {} kernels.\n",
                  calibration.seconds, calibration.hardware.threads, name_of(isa));
  if (calibration.taken_by_others.value_or(0.0) >= kTellOthers) {
    text += fmt::format(
        "# Others took {:.0f} % of the cores meanwhile: measure again when they are idle.\n",
        100.0 * *calibration.taken_by_others);
  }
  text += "# Errors of the prices against these measurements:\n";
  for (const auto& [name, errors] : calibration.errors) {
    text += fmt::format("# {:<13}{}\n", name, text_of(errors));
  }
  return text + to_toml(calibration.hardware);
}

}  // namespace

Result<int> run_calibrate(const CalibrateOptions& options, CommandIo& io) {
  const std::vector<Isa> isas = supported_isas();
  if (isas.empty()) {
    return Error{ErrorKind::Runtime, "this processor has no AVX2 and FMA: no kernels run on it"};
  }
  if (!(options.seconds >= 0.0 && options.seconds <= kMostCalibrationSeconds)) {
    return Error{ErrorKind::Usage,
                 fmt::format("--seconds {} must be at least 0 and at most {}: try {}",
                             options.seconds, kMostCalibrationSeconds, CalibrateOptions{}.seconds)};
  }
  if (!options.out.empty()) TRIREME_TRY_DONE(make_folders_of(options.out));
  const std::string folder = std::filesystem::path(options.out).parent_path().string();
  const Calibration calibration =
      calibrate({.num_threads = options.threads > 0 ? options.threads : num_available_cores(),
                 .isa = isas.back(),
                 .folder = folder.empty() ? "." : folder,
                 .most_seconds = options.seconds});
  const std::string text = text_of(calibration, isas.back());
  if (options.out.empty()) {
    io.out << text;
  } else {
    TRIREME_TRY_DONE(write_file_atomically(options.out, text));
  }
  return 0;
}

}  // namespace trireme
