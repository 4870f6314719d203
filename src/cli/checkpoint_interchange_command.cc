#include "cli/checkpoint_interchange_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <sstream>

#include "base/file.h"
#include "base/units.h"
#include "checkpoint/find_checkpoint.h"
#include "cli/path_checks.h"
#include "config/config_load.h"
#include "device/host.h"
#include "interchange/foreign_model.h"
#include "interchange/interchange.h"
#include "interchange/logits.h"
#include "interchange/merge_adapters.h"
#include "interchange/peft_adapters.h"
#include "schema/run_config_text.h"

namespace trireme {
namespace {

int thread_count_of(int wanted) { return wanted > 0 ? wanted : num_available_cores(); }

std::string describe(const InterchangeModel& model) {
  const ModelSpec& spec = model.weights.model();
  if (spec.reads_images()) {
    return fmt::format("{} of {} parameters: {} layers, images of {} x {}, {} classes",
                       name_of(spec.family), num_params(spec), spec.layers, spec.image_size,
                       spec.image_size, spec.vocab_size);
  }
  return fmt::format(
      "{} of {} parameters: {} layers, d_model {}, {} heads, vocabulary {}, context {}",
      name_of(spec.family), num_params(spec), spec.layers, spec.d_model, spec.heads,
      spec.vocab_size, spec.seq_len);
}

void print_notes(const InterchangeModel& model, CommandIo& io) {
  for (const std::string& note : model.notes) io.err << "note: " << note << "\n";
}

// Compares weights first, because a difference in logits would not say where it comes from.
Status check_written(const Weights& original, const Weights& written, Rounding rounding,
                     const std::string& path, int num_threads, CommandIo& io) {
  const Status same = compare_weights(original, written, rounding);
  if (!same.ok()) return with_context(same.error(), path + " does not hold what was written to it");
  if (original.model().reads_images()) {
    io.out << fmt::format("read back: {} parameters are equal{}\n", num_params(original.model()),
                          rounding == Rounding::None ? " bit for bit" : " as far as rounded");
    return Done{};
  }
  const LogitsCheck check = compare_logits(original, written, num_threads);
  if (rounding == Rounding::None && check.greatest_difference != 0.0) {
    return Error{ErrorKind::Damaged,
                 fmt::format("{}: logits differ by {} though the weights are equal", path,
                             check.greatest_difference)};
  }
  io.out << fmt::format(
      "read back: {}\n",
      check.greatest_difference == 0.0
          ? fmt::format("{} logits are equal bit for bit", check.num_logits)
          : fmt::format("{} logits differ by at most {:.3g}, the greatest is {:.3g}",
                        check.num_logits, check.greatest_difference, check.greatest_logit));
  return Done{};
}

Result<ForeignWriteOptions> write_options(const CheckpointExportOptions& options) {
  ForeignWriteOptions write;
  write.rounding = options.dtype == "fp16"   ? Rounding::F16
                   : options.dtype == "bf16" ? Rounding::BF16
                   : options.dtype == "q8_0" ? Rounding::Q8_0
                                             : Rounding::None;
  write.format = options.format == "gguf"          ? ForeignFormat::Gguf
                 : options.format == "llmc"        ? ForeignFormat::Llmc
                 : options.format == "torchvision" ? ForeignFormat::Torchvision
                                                   : ForeignFormat::HuggingFace;
  return write;
}

Result<InterchangeModel> read_own_model(const std::string& path, int num_threads, CommandIo& io) {
  TRIREME_TRY(checkpoint, find_checkpoint(path, io.open_input));
  TRIREME_TRY(config_text, checkpoint.read_attached("config.resolved.toml"));
  auto config = load_config_text(config_text, checkpoint.folder(), io.model_folders);
  if (!config.ok()) return damaged(config.error().message);
  return read_checkpoint_model(checkpoint, config->config.model, num_threads);
}

// A name of a store is that of a checkpoint.
bool is_own_or_stored(const std::string& path) { return is_url(path) || is_own_model(path); }

// The base model of --adapters may be a checkpoint of ours, too.
Result<InterchangeModel> read_imported(const CheckpointImportOptions& options, int num_threads,
                                       CommandIo& io) {
  if (options.adapters.empty()) {
    TRIREME_TRY_DONE(require_here(options.path));
    if (is_own_model(options.path)) {
      return usage(
          fmt::format("{}: a checkpoint or a run of Trireme, and this command converts "
                      "models of other programs: use it as it is",
                      options.path));
    }
    return read_foreign_model(options.path);
  }
  TRIREME_TRY_DONE(require_adapters(options.adapters));
  TRIREME_TRY(base, is_own_or_stored(options.path) ? read_own_model(options.path, num_threads, io)
                                                   : read_foreign_model(options.path));
  return read_peft_adapters(std::move(base), options.adapters);
}

// Says how far the merged model is from the one with adapters.
InterchangeModel merged(InterchangeModel model, int num_threads, CommandIo& io) {
  if (!model.weights.model().has_adapters()) return model;
  Weights weights = merge_adapters(model.weights);
  const LogitsCheck check = compare_logits(model.weights, weights, num_threads);
  io.out << fmt::format(
      "merged the adapters of {}: {} logits differ by at most {:.3g}, the greatest is {:.3g}\n",
      to_string(model.weights.model().lora_targets), check.num_logits, check.greatest_difference,
      check.greatest_logit);
  model.weights = std::move(weights);
  model.config = without_adapters(std::move(model.config));
  return model;
}

Result<int> export_adapters(const InterchangeModel& model, const CheckpointExportOptions& options,
                            Rounding rounding, int num_threads, CommandIo& io) {
  if (rounding == Rounding::Q8_0) return usage("--dtype q8_0 is only for --format gguf");
  const DType dtype = rounding == Rounding::F16    ? DType::F16
                      : rounding == Rounding::BF16 ? DType::BF16
                                                   : DType::F32;
  TRIREME_TRY_DONE(write_peft_adapters(model, options.out, dtype));
  InterchangeModel base{.config = without_adapters(model.config),
                        .weights = without_adapters(model.weights)};
  TRIREME_TRY(written, read_peft_adapters(std::move(base), options.out));
  io.out << fmt::format("{}: adapters of rank {} of {}\n", options.out,
                        model.weights.model().lora_rank,
                        to_string(model.weights.model().lora_targets));
  TRIREME_TRY_DONE(
      check_written(model.weights, written.weights, rounding, options.out, num_threads, io));
  return 0;
}

Result<std::vector<int32_t>> parse_tokens(std::string text, const ModelSpec& model) {
  std::replace(text.begin(), text.end(), ',', ' ');
  std::istringstream numbers(text);
  std::vector<int32_t> tokens;
  for (std::string number; numbers >> number;) {
    int32_t token = 0;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), token);
    const bool is_number = error == std::errc() && end == number.data() + number.size();
    if (!is_number || token < 0 || token >= model.vocab_size) {
      return Error{ErrorKind::Usage,
                   fmt::format("--tokens: '{}' is not a token below {}", number, model.vocab_size)};
    }
    tokens.push_back(token);
  }
  if (tokens.empty() || static_cast<int64_t>(tokens.size()) > model.seq_len) {
    return Error{ErrorKind::Usage, fmt::format("--tokens has {} tokens; the model takes 1 to {}",
                                               tokens.size(), model.seq_len)};
  }
  return tokens;
}

}  // namespace

Result<int> run_checkpoint_import(const CheckpointImportOptions& options, CommandIo& io) {
  const int num_threads = thread_count_of(options.threads);
  TRIREME_TRY(model, read_imported(options, num_threads, io));
  print_notes(model, io);
  RunConfig config;
  config.model = model.config;
  if (model.weights.model().reads_images()) config.data.source = DataSource::Images;
  // A run that resumes from this checkpoint computes in the dtype of the file if possible.
  config.precision.compute = model.dtype == DType::BF16 ? ComputeChoice::Bf16 : ComputeChoice::Fp32;
  TRIREME_TRY_DONE(
      write_checkpoint_model(model, {to_toml(config), options.is_trainable}, options.out));
  TRIREME_TRY(checkpoint, Checkpoint::open(options.out));
  TRIREME_TRY(written, read_checkpoint_model(checkpoint, model.config, num_threads));
  io.out << fmt::format("{}: {}\n", options.out, describe(model));
  TRIREME_TRY_DONE(
      check_written(model.weights, written.weights, Rounding::None, options.out, num_threads, io));
  if (options.is_trainable) {  // the configuration has no data yet
    io.out << fmt::format(
        "train it: trireme train {0}/config.resolved.toml --resume {0} --set data.train={1} --out "
        "RUN_DIR\n",
        options.out, model.weights.model().reads_images() ? "IMAGES" : "TRAIN.tok");
  }
  return 0;
}

Result<int> run_checkpoint_export(const CheckpointExportOptions& options, CommandIo& io) {
  const int num_threads = thread_count_of(options.threads);
  TRIREME_TRY(write, write_options(options));
  TRIREME_TRY_DONE(require_checkpoint(options.path));
  TRIREME_TRY_DONE(require_new(options.out));
  TRIREME_TRY(own, read_own_model(options.path, num_threads, io));
  TRIREME_TRY_DONE(make_folders_of(options.out));
  if (options.format == "peft") {
    return export_adapters(own, options, write.rounding, num_threads, io);
  }
  const InterchangeModel model =
      without_unsupported_modules(merged(std::move(own), num_threads, io), write.format);
  print_notes(model, io);
  TRIREME_TRY_DONE(write_foreign_model(model, options.out, write));
  TRIREME_TRY(written, read_foreign_model(options.out));
  io.out << fmt::format("{}: {}\n", options.out, describe(model));
  print_notes(written, io);
  if (write.format == ForeignFormat::Gguf && written.tokenizer == nullptr) {
    io.err
        << "note: the file has no tokenizer, because the checkpoint has none that GGUF can hold\n";
  }
  TRIREME_TRY_DONE(
      check_written(model.weights, written.weights, write.rounding, options.out, num_threads, io));
  return 0;
}

Result<int> run_checkpoint_logits(const CheckpointLogitsOptions& options, CommandIo& io) {
  const int num_threads = thread_count_of(options.threads);
  TRIREME_TRY(model, is_own_or_stored(options.path) ? read_own_model(options.path, num_threads, io)
                                                    : read_foreign_model(options.path));
  const ModelSpec& spec = model.weights.model();
  if (spec.reads_images()) {
    return usage(
        fmt::format("{} is a net of images, which reads no tokens: `trireme eval {} IMAGES` "
                    "says how many images it classifies right",
                    options.path, options.path));
  }
  if (options.tokens.empty()) {
    return usage("--tokens is missing: name the tokens, such as --tokens 1,2,3");
  }
  TRIREME_TRY(tokens, parse_tokens(options.tokens, spec));
  const std::vector<float> logits_TV = logits_of(model.weights, tokens, num_threads);
  for (size_t t = 0; t < tokens.size(); ++t) {
    for (int64_t v = 0; v < spec.vocab_size; ++v) {
      io.out << fmt::format("{}{}", v == 0 ? "" : " ",
                            logits_TV[t * size_t(spec.vocab_size) + size_t(v)]);
    }
    io.out << "\n";
  }
  return 0;
}

}  // namespace trireme
