#include "cli/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <ostream>

#include "api/loaded_model.h"
#include "base/file.h"
#include "base/units.h"
#include "checkpoint/find_checkpoint.h"
#include "cli/path_checks.h"
#include "device/host.h"
#include "train/trainer.h"

namespace trireme {
namespace {

Result<std::string> prompt_text(const GenerateOptions& options) {
  if (options.prompt_file.empty()) return options.prompt;
  if (options.prompt_file != "-") return read_text_file(options.prompt_file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

}  // namespace

Result<int> run_generate(const GenerateOptions& options, CommandIo& io) {
  const SamplingOptions sampling{options.temperature, options.top_k, options.top_p, options.seed};
  TRIREME_TRY_DONE(check_sampling(sampling));
  if (options.num_tokens < 0) {
    return Error{
        ErrorKind::Usage,
        fmt::format("--tokens {} must not be negative: it is the number of tokens to generate",
                    options.num_tokens)};
  }
  TRIREME_TRY_DONE(require_folder(options.checkpoint));
  TRIREME_TRY(checkpoint, find_checkpoint(options.checkpoint));
  TRIREME_TRY(prompt, prompt_text(options));
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  TRIREME_TRY(loaded, LoadedModel::load(checkpoint, num_threads, io.model_folders));
  TRIREME_TRY(tokenizer, loaded->tokenizer());
  TRIREME_TRY(tokens, tokenizer->encode(prompt));
  TokenSampler sampler(sampling, tokenizer->vocab_size());

  io.out << prompt << std::flush;
  const int64_t begin_ns = monotonic_ns();
  int64_t num_generated = 0;
  generate(loaded->ctx(), loaded->decoder(), *tokenizer, sampler, tokens, options.num_tokens,
           [&](int32_t token) {
             io.out << tokenizer->piece(token) << std::flush;
             ++num_generated;
           });
  io.out << "\n" << std::flush;
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  io.err << fmt::format("{} tokens in {}: {} tokens/s\n", num_generated, format_duration(seconds),
                        format_rate(double(num_generated) / std::max(seconds, 1e-9)));
  return 0;
}

}  // namespace trireme
