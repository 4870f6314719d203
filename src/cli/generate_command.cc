#include "cli/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/units.h"
#include "cli/number_text.h"
#include "cli/open_model.h"
#include "cli/ordered_texts.h"
#include "cli/stop_texts.h"
#include "cli/text_options.h"
#include "data/text_reader.h"
#include "device/host.h"
#include "train/generate.h"

namespace trireme {
namespace {

// Reads what the option `option` names, and refuses what is not text, as `trireme data` does.
Result<std::string> text_of(std::string_view option, const std::string& file,
                            const GenerateOptions& options, const OpenInput& open_input) {
  std::error_code ignored;
  if (file != "-" && !is_url(file) && !std::filesystem::exists(file, ignored)) {
    return usage(fmt::format("{} {}: no such file", option, file));
  }
  TRIREME_TRY(reader, TextReader::open({.paths = {file},
                                        .format = TextFormat::Text,
                                        .is_binary_read = options.is_binary_read,
                                        .open_input = open_input}));
  TextBatch batch;
  for (bool has_more = reader.total_bytes() != 0; has_more;) {
    TRIREME_TRY(more, reader.read(batch));
    has_more = more;
  }
  return std::move(batch.text);
}

// Returns the tokenizer of --tokenizer, or null if the model's own is meant.
Result<std::unique_ptr<Tokenizer>> named_tokenizer(const GenerateOptions& options,
                                                   const ModelSpec& model,
                                                   const OpenInput& open_input) {
  if (options.tokenizer.empty()) return std::unique_ptr<Tokenizer>();
  TRIREME_TRY(named, open_tokenizer(options.tokenizer, open_input));
  if (named->vocab_size() <= model.vocab_size) return std::move(named);
  return usage(fmt::format("--tokenizer {}: its {} tokens are more than the model's {}",
                           options.tokenizer, named->vocab_size(), model.vocab_size));
}

Result<const Tokenizer*> own_tokenizer(const LoadedModel& loaded) {
  const Result<const Tokenizer*> own = loaded.tokenizer();
  if (own.ok()) return own;
  return Error{own.error().kind, own.error().message +
                                     "; if you know which one made its tokens, name it with "
                                     "--tokenizer"};
}

// Returns the prompts: one, or those of the lines of --prompts that are not empty.
Result<std::vector<std::string>> prompt_texts(const GenerateOptions& options,
                                              const OpenInput& open_input) {
  const int num_sources = int(!options.prompt.empty()) + int(!options.prompt_file.empty()) +
                          int(!options.prompts_file.empty());
  if (num_sources > 1) {
    return usage("--prompt, --file and --prompts each name what to continue: give one of them");
  }
  if (!options.prompt_file.empty()) {
    TRIREME_TRY(text, text_of("--file", options.prompt_file, options, open_input));
    return std::vector<std::string>{std::move(text)};
  }
  if (options.prompts_file.empty()) return std::vector<std::string>{options.prompt};
  TRIREME_TRY(text, text_of("--prompts", options.prompts_file, options, open_input));
  std::vector<std::string> prompts;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty()) prompts.push_back(std::move(line));
  }
  if (!prompts.empty()) return prompts;
  return usage(fmt::format("--prompts {}: it has no prompt; write one prompt on each line",
                           options.prompts_file));
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

SamplingOptions sampling_of(const GenerateOptions& options) {
  return {options.temperature, options.top_k, options.top_p, options.seed, options.repeat_penalty};
}

// Returns what messages about a prompt begin with. `is_list`: the prompts are those of --prompts.
std::string label_of(size_t index, bool is_list) {
  return is_list ? fmt::format("prompt {}: ", index + 1) : std::string();
}

std::string rate(int64_t num_tokens, double seconds) {
  return format_rate(double(num_tokens) / std::max(seconds, 1e-9)) + " tokens/s";
}

GenerateReport sum_of(const std::vector<GenerateReport>& reports) {
  GenerateReport sum;
  for (const GenerateReport& report : reports) {
    sum.prompt_tokens += report.prompt_tokens;
    sum.new_tokens += report.new_tokens;
    sum.decoded_tokens += report.decoded_tokens;
    sum.first_token_s += report.first_token_s;
    sum.decode_s += report.decode_s;
  }
  return sum;
}

// The times of all prompts together, for the plans of `trireme serve-plan`.
std::string speed_json(const std::vector<GenerateReport>& reports, int num_threads) {
  const GenerateReport sum = sum_of(reports);
  const nlohmann::ordered_json json = {{"prompts", reports.size()},
                                       {"threads", num_threads},
                                       {"prompt_tokens", sum.prompt_tokens},
                                       {"first_token_s", sum.first_token_s},
                                       {"decoded_tokens", sum.decoded_tokens},
                                       {"decode_s", sum.decode_s}};
  return json_text(json, 2) + "\n";
}

// Prints how fast prompts were read and tokens generated. `is_list`: the prompts are those of
// --prompts.
void print_speed(const std::vector<GenerateReport>& reports, bool is_list, std::ostream& out) {
  const GenerateReport sum = sum_of(reports);
  if (sum.first_token_s > 0.0) {
    const std::string names = is_list ? fmt::format("{} prompts", reports.size()) : "prompt";
    out << fmt::format("{}: {}, first token after {}{}: {}\n", names,
                       format_counted(sum.prompt_tokens, "token"),
                       format_seconds(sum.first_token_s / double(reports.size())),
                       is_list ? " (mean)" : "", rate(sum.prompt_tokens, sum.first_token_s));
  }
  const std::string names = is_list ? fmt::format("{} texts", reports.size()) : "text";
  out << fmt::format("{}: {}", names, format_counted(sum.new_tokens, "token"));
  if (sum.decoded_tokens > 0) {
    out << fmt::format(", {} drawn after the first in {}: {}", sum.decoded_tokens,
                       format_seconds(sum.decode_s), rate(sum.decoded_tokens, sum.decode_s));
  }
  out << "\n";
}

// Continues the texts, whose tokens `prompts` are, and prints them.
Result<std::vector<GenerateReport>> print_texts(const GenerateOptions& options,
                                                const std::vector<std::string>& texts,
                                                std::vector<std::vector<int32_t>> prompts,
                                                const Tokenizer& tokenizer, LoadedModel& loaded,
                                                CommandIo& io) {
  const bool is_list = !options.prompts_file.empty();
  OrderedTexts ordered(texts, is_list, io.out);
  std::vector<StopTexts> stops;
  std::vector<GenerateRequest> requests;
  for (size_t k = 0; k < texts.size(); ++k) {
    TRIREME_TRY(stop, StopTexts::make(options.stops));
    stops.push_back(std::move(stop));
    SamplingOptions sampling = sampling_of(options);
    sampling.seed += k;
    const GenerateCalls calls{
        .emit =
            [&, k](int32_t token) {
              ordered.add(k, stops[k].add(tokenizer.piece(token)));
              return !stops[k].has_stopped();
            },
        .note = [&, k,
                 is_list](const std::string& s) { io.err << label_of(k, is_list) << s << "\n"; },
        .end =
            [&, k] {
              ordered.add(k, stops[k].rest());
              ordered.end(k);
            }};
    requests.push_back({std::move(prompts[k]), sampling, calls});
  }
  return generate(loaded.ctx(), loaded.decoder(), tokenizer, std::move(requests),
                  options.num_tokens);
}

}  // namespace

Result<int> run_generate(const GenerateOptions& options, CommandIo& io) {
  TRIREME_TRY(path, model_path(options));
  TRIREME_TRY_DONE(check_sampling(sampling_of(options)));
  TRIREME_TRY_DONE(StopTexts::make(options.stops));
  if (options.num_tokens < 0) {
    return Error{
        ErrorKind::Usage,
        fmt::format("--tokens {} must not be negative: it is the number of tokens to generate",
                    options.num_tokens)};
  }
  TRIREME_TRY(texts, prompt_texts(options, io.open_input));
  const auto longest = std::max_element(
      texts.begin(), texts.end(),
      [](const std::string& a, const std::string& b) { return a.size() < b.size(); });
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(loaded, open_model(path,
                                 {.precision = options.precision,
                                  // A prompt has at most one token per byte.
                                  .most_tokens = int64_t(longest->size()) + options.num_tokens + 2,
                                  .num_threads = num_threads},
                                 io));
  TRIREME_TRY(named, named_tokenizer(options, loaded->model(), io.open_input));
  TRIREME_TRY(tokenizer, named == nullptr ? own_tokenizer(*loaded) : named.get());
  const bool is_list = !options.prompts_file.empty();
  std::vector<std::vector<int32_t>> prompts;
  for (const std::string& text : texts) {
    Result<std::vector<int32_t>> tokens = tokenizer->encode(text);
    if (!tokens.ok()) {
      return Error{tokens.error().kind, label_of(prompts.size(), is_list) + tokens.error().message};
    }
    prompts.push_back(std::move(*tokens));
  }
  io.err << fmt::format("model: loaded in {}\n",
                        format_seconds(double(monotonic_ns() - begin_ns) * 1e-9));
  if (options.precision == kQuantizedPrecision) {
    io.err << fmt::format("{}: {} of {} of the weights are in bytes\n", kQuantizedPrecision,
                          format_count(double(loaded->num_in_bytes())),
                          format_count(double(num_params(loaded->model()))));
  }

  // A file of times is read as that of one request after the other.
  loaded->make_sequences(options.speed_file.empty() ? int64_t(texts.size()) : 1);
  TRIREME_TRY(reports, print_texts(options, texts, std::move(prompts), *tokenizer, *loaded, io));
  print_speed(reports, is_list, io.err);
  if (options.speed_file.empty()) return 0;
  TRIREME_TRY_DONE(make_folders_of(options.speed_file));
  TRIREME_TRY_DONE(write_file_atomically(options.speed_file, speed_json(reports, num_threads)));
  return 0;
}

}  // namespace trireme
