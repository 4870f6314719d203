#include "cli/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <ostream>

#include "base/file.h"
#include "base/units.h"
#include "cli/open_model.h"
#include "cli/stop_texts.h"
#include "device/host.h"
#include "train/trainer.h"

namespace trireme {
namespace {

Result<std::string> prompt_text(const GenerateOptions& options) {
  if (options.prompt_file.empty()) return options.prompt;
  if (options.prompt_file != "-") return read_text_file(options.prompt_file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

Result<std::string> model_path(const GenerateOptions& options) {
  if (!options.model.empty() && !options.checkpoint.empty()) {
    return usage(fmt::format("{} and --checkpoint {} both name a model: give one of them",
                             options.model, options.checkpoint));
  }
  if (options.model.empty() && options.checkpoint.empty()) {
    return usage(
        "no model is named: give a run directory or a checkpoint, such as `trireme generate "
        "runs/demo -p TEXT`");
  }
  return options.model.empty() ? options.checkpoint : options.model;
}

}  // namespace

Result<int> run_generate(const GenerateOptions& options, CommandIo& io) {
  const SamplingOptions sampling{options.temperature, options.top_k, options.top_p, options.seed,
                                 options.repeat_penalty};
  TRIREME_TRY(path, model_path(options));
  TRIREME_TRY_DONE(check_sampling(sampling));
  TRIREME_TRY(stops, StopTexts::make(options.stops));
  if (options.num_tokens < 0) {
    return Error{
        ErrorKind::Usage,
        fmt::format("--tokens {} must not be negative: it is the number of tokens to generate",
                    options.num_tokens)};
  }
  TRIREME_TRY(prompt, prompt_text(options));
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  TRIREME_TRY(loaded, open_model(path,
                                 {.precision = options.precision,
                                  // The prompt has at most one token per byte.
                                  .most_tokens = int64_t(prompt.size()) + options.num_tokens + 2,
                                  .num_threads = num_threads},
                                 io));
  TRIREME_TRY(tokenizer, loaded->tokenizer());
  TRIREME_TRY(tokens, tokenizer->encode(prompt));
  TokenSampler sampler(sampling, tokenizer->vocab_size());

  io.out << prompt << std::flush;
  const int64_t begin_ns = monotonic_ns();
  int64_t num_generated = 0;
  generate(loaded->ctx(), loaded->decoder(), *tokenizer, sampler, tokens, options.num_tokens,
           [&](int32_t token) {
             io.out << stops.add(tokenizer->piece(token)) << std::flush;
             ++num_generated;
             return !stops.has_stopped();
           });
  io.out << stops.rest() << "\n" << std::flush;
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  io.err << fmt::format("{} tokens in {}: {} tokens/s\n", num_generated, format_seconds(seconds),
                        format_rate(double(num_generated) / std::max(seconds, 1e-9)));
  return 0;
}

}  // namespace trireme
