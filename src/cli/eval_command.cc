#include "cli/eval_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <ostream>

#include "api/this_machine.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json_text.h"
#include "base/units.h"
#include "checkpoint/find_checkpoint.h"
#include "cli/path_checks.h"
#include "cli/text_options.h"
#include "config/config_load.h"
#include "data/documents.h"
#include "data/text_reader.h"
#include "data/window_source.h"
#include "device/thread_team.h"
#include "schema/image_net.h"
#include "schema/mesh.h"
#include "schema/run_config_text.h"
#include "session/evaluate.h"
#include "session/image_data.h"
#include "session/resumed_config.h"
#include "tokenizer/text_encoder.h"

namespace trireme {
namespace {

// Holds the tokens of a text, or images, that are evaluated. The source may borrow the file.
struct EvaluatedData {
  std::unique_ptr<TokenFile> file;
  std::unique_ptr<TokenSource> source;
  int64_t num_samples = 0;
  int64_t bytes = 0;  // of the text whose tokens are targets; 0: unknown
};

void set_windows(std::unique_ptr<WindowSource> windows, EvaluatedData& data) {
  data.num_samples = windows->num_windows();
  data.source = std::move(windows);
}

Result<std::unique_ptr<Tokenizer>> tokenizer_of(const Checkpoint& checkpoint) {
  const Result<std::string> text = checkpoint.read_attached("tokenizer.json");
  if (text.ok()) return parse_tokenizer(*text);
  if (text.error().kind != ErrorKind::Usage) return text.error();  // it exists and is damaged
  return std::unique_ptr<Tokenizer>();
}

bool begins_like_token_file(std::string_view bytes) { return bytes.starts_with("TRITOK"); }

Result<bool> is_token_file(const std::string& path, const OpenInput& open_input) {
  std::array<char, 6> begin{};
  if (!is_url(path)) {  // it may be a pipe or a folder
    std::ifstream(path, std::ios::binary).read(begin.data(), begin.size());
    return begins_like_token_file({begin.data(), begin.size()});
  }
  TRIREME_TRY(file, open_named(path, open_input));
  const auto bytes = std::as_writable_bytes(std::span(begin));
  TRIREME_TRY_DONE(file.read(0, bytes.first(size_t(std::min<int64_t>(6, file.bytes())))));
  return begins_like_token_file({begin.data(), begin.size()});
}

// The first token is not predicted, so bits per byte leaves out its bytes.
int64_t bytes_of_targets(int64_t text_bytes, const Tokenizer* tokenizer, int32_t first) {
  if (tokenizer == nullptr) return text_bytes;
  const bool is_text = first != tokenizer->end_of_text();
  return text_bytes - (is_text ? int64_t(tokenizer->piece(first).size()) : 0);
}

Status check_vocabulary(const std::string& data, int64_t vocab_size, const ModelSpec& model) {
  if (vocab_size <= model.vocab_size) return Done{};
  return usage(
      fmt::format("{} has a vocabulary of {} tokens, and the model one of {}: prepare the "
                  "text with the tokenizer of the model",
                  data, vocab_size, model.vocab_size));
}

Status check_length(const std::string& data, int64_t num_tokens) {
  if (num_tokens >= 2) return Done{};
  return usage(fmt::format("{} has {} token{}: an evaluation needs 2 or more", data, num_tokens,
                           num_tokens == 1 ? "" : "s"));
}

Result<EvaluatedData> open_tokens(const std::string& path, const OpenInput& open_input,
                                  const Tokenizer* tokenizer, const ModelSpec& model) {
  TRIREME_TRY(opened, TokenFile::open_named(path, open_input));
  EvaluatedData text{.file = std::make_unique<TokenFile>(std::move(opened))};
  const TokenFile& file = *text.file;
  if (tokenizer != nullptr && tokenizer->hash() != file.header().tokenizer_hash) {
    return usage(fmt::format(
        "{} was made with another tokenizer (hash {}) than that of the model (hash {}): evaluate "
        "the text itself, or prepare it again",
        path, hex64(file.header().tokenizer_hash), hex64(tokenizer->hash())));
  }
  TRIREME_TRY_DONE(check_vocabulary(path, file.vocab_size(), model));
  TRIREME_TRY_DONE(check_length(path, file.num_tokens()));
  int32_t first = 0;
  file.read(0, std::span(&first, 1));
  // The file does not say how many bytes the tokens have that its loss mask leaves.
  if (!file.header().has_loss_mask) {
    text.bytes = bytes_of_targets(file.header().text_bytes, tokenizer, first);
  }
  set_windows(std::make_unique<WindowSource>(file, model.seq_len), text);
  return text;
}

// Encodes a text into the same tokens as `trireme data prepare`.
Result<EvaluatedData> encode_text(const EvalOptions& options, const OpenInput& open_input,
                                  const Tokenizer* tokenizer, const ModelSpec& model) {
  if (tokenizer == nullptr) {
    return usage(options.model +
                 " has no tokenizer.json, so it cannot read a text: give a token file instead");
  }
  TRIREME_TRY(format, parse_text_format(options.format));
  TRIREME_TRY(reader, TextReader::open({.paths = {options.data},
                                        .format = format,
                                        .field = options.field,
                                        .is_binary_read = options.is_binary_read,
                                        .open_input = open_input}));
  ThreadTeam team(thread_count(0));
  TextEncoder encoder(*tokenizer, team);
  TextBatch batch;
  TextEncoder::Encoded part;
  std::vector<int32_t> tokens;
  for (bool more = true; more;) {
    TRIREME_TRY(has_more, reader.read(batch));
    more = has_more;
    TRIREME_TRY_DONE(encoder.encode(batch, part));
    tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
  }
  TRIREME_TRY_DONE(check_vocabulary(options.data, tokenizer->vocab_size(), model));
  TRIREME_TRY_DONE(check_length(options.data, int64_t(tokens.size())));
  EvaluatedData text;
  text.bytes = bytes_of_targets(reader.report().text_bytes, tokenizer, tokens.front());
  set_windows(
      std::make_unique<WindowSource>(std::move(tokens), tokenizer->vocab_size(), model.seq_len),
      text);
  return text;
}

// Masks documents if the model was trained so (data.document_mask). The loss then leaves out the
// first tokens of documents, whose bytes are not known.
Status mask_documents(const RunConfig& config, const Tokenizer* tokenizer, EvaluatedData& text) {
  if (!config.data.document_mask) return Done{};
  if (tokenizer == nullptr) {
    return usage(
        "the model was trained with data.document_mask and has no tokenizer.json, so the token "
        "that ends a document is not known: set data.document_mask = false");
  }
  text.source = std::make_unique<DocumentSource>(std::move(text.source), tokenizer->end_of_text());
  text.bytes = 0;
  return Done{};
}

// --ranks derives parallel.dp, as in `trireme train`.
Status derive_dp(const EvalOptions& options, const Launch& launch, RunConfig& config) {
  ParallelConfig& parallel = config.parallel;
  const int ranks = options.ranks.value_or(launch.ranks);
  const int others = parallel.tp * parallel.pp * parallel.cp;
  if (ranks == 0 || ranks == num_ranks(parallel)) return Done{};
  if (states_places(parallel)) {
    return usage(
        fmt::format("the places of the pipeline with parallel.{} have {} ranks, not {}: change "
                    "--ranks or the degrees",
                    places_text(parallel), num_ranks(parallel), ranks));
  }
  if (ranks < 0 || parallel.dp != 1 || ranks % others != 0) {
    return usage(
        fmt::format("{} ranks do not make parallel.dp * tp * pp * cp = {}: change --ranks "
                    "or the degrees",
                    ranks, others * parallel.dp));
  }
  parallel.dp = ranks / others;
  return Done{};
}

struct EvaluatedConfig {
  RunConfig trained;  // of the run that wrote the checkpoint
  RunConfig own;      // of the evaluation
};

Result<EvaluatedConfig> evaluated_config(const Checkpoint& checkpoint, const EvalOptions& options,
                                         const CommandIo& io) {
  TRIREME_TRY(text, checkpoint.read_attached("config.resolved.toml"));
  auto trained = load_config_text(text, checkpoint.folder(), io.model_folders);
  if (!trained.ok()) return damaged(trained.error().message);
  TRIREME_TRY(loaded,
              load_config_text(to_toml(evaluation_config(trained->config)),
                               "the model's configuration", io.model_folders, options.overrides));
  TRIREME_TRY_DONE(derive_dp(options, io.launch, loaded.config));
  if (io.launch.ranks > 0) loaded.config.run.backend = BackendChoice::Mpi;
  return EvaluatedConfig{std::move(trained->config), std::move(loaded.config)};
}

Result<EvaluatedData> open_images(const std::string& path, const RunConfig& config,
                                  const ModelSpec& model) {
  TRIREME_TRY(images, open_evaluated_images(path, config, model.vocab_size));
  EvaluatedData data;
  data.source = std::move(images.source);
  data.num_samples = images.size;
  return data;
}

Result<EvaluatedData> open_data(const EvalOptions& options, const RunConfig& config,
                                const OpenInput& open_input, const Tokenizer* tokenizer,
                                const ModelSpec& model) {
  if (model.reads_images()) return open_images(options.data, config, model);
  TRIREME_TRY(has_tokens, is_token_file(options.data, open_input));
  TRIREME_TRY(text, has_tokens ? open_tokens(options.data, open_input, tokenizer, model)
                               : encode_text(options, open_input, tokenizer, model));
  TRIREME_TRY_DONE(mask_documents(config, tokenizer, text));
  return std::move(text);
}

struct EvalNumbers {
  double loss, perplexity, top1;
  std::optional<double> bits_per_byte;
};

EvalNumbers numbers_of(const EvalResult& result, int64_t bytes) {
  EvalNumbers numbers{.loss = result.mean(),
                      .perplexity = std::exp(result.mean()),
                      .top1 = double(result.num_hits) / double(result.valid_tokens)};
  if (bytes > 0) numbers.bits_per_byte = result.loss_sum / std::log(2.0) / double(bytes);
  return numbers;
}

struct EvaluatedModel {
  const Checkpoint& checkpoint;
  const std::string& data;
  bool reads_images = false;
  int64_t bytes = 0;
};

void print_text(const EvaluatedModel& evaluated, const EvalResult& result, std::ostream& out) {
  const EvalNumbers numbers = numbers_of(result, evaluated.bytes);
  const Checkpoint& checkpoint = evaluated.checkpoint;
  const std::string counts =
      evaluated.reads_images ? fmt::format("{} images", result.valid_tokens)
      : evaluated.bytes > 0
          ? fmt::format("{} predicted tokens, {} bytes", result.valid_tokens, evaluated.bytes)
          : fmt::format("{} predicted tokens", result.valid_tokens);  // their bytes are unknown
  out << fmt::format("model           {} (step {})\n", checkpoint.folder(), checkpoint.info().step)
      << fmt::format("data            {}: {}\n", evaluated.data, counts)
      << fmt::format("loss            {:.6f} nats per {}\n", numbers.loss,
                     evaluated.reads_images ? "image" : "token");
  if (numbers.bits_per_byte) {
    out << fmt::format("bits per byte   {:.6f}\n", *numbers.bits_per_byte);
  }
  out << fmt::format("perplexity      {:.4f}\n", numbers.perplexity)
      << fmt::format("top-1           {:.2f} %\n", 100.0 * numbers.top1);
}

nlohmann::ordered_json finite(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

}  // namespace

Result<int> run_eval(const EvalOptions& options, CommandIo& io) {
  if (io.launch.place) return usage("trireme launch starts no evaluation: use --ranks or mpirun");
  if (!is_url(options.model)) TRIREME_TRY_DONE(require_folder(options.model));
  TRIREME_TRY(checkpoint, find_checkpoint(options.model, io.open_input));
  TRIREME_TRY(tokenizer, tokenizer_of(checkpoint));
  TRIREME_TRY(configs, evaluated_config(checkpoint, options, io));
  const RunConfig& config = configs.own;
  HostFacts host = this_host();
  host.ranks_on_host = io.launch.ranks_on_host;
  if (tokenizer != nullptr) host.data_vocab_size = tokenizer->vocab_size();
  TRIREME_TRY(model, resolve_model(config.model, host.data_vocab_size));
  // A net of images with global pooling has the same weights for every size.
  configs.trained.model.image_size = config.model.image_size;
  TRIREME_TRY_DONE(check_same_model(configs.trained, config, model, checkpoint.folder(),
                                    "leave the key out to evaluate this model"));
  TRIREME_TRY(data, open_data(options, config, io.open_input, tokenizer.get(), model));
  int num_ranks = 1;
  const int64_t begin_ns = monotonic_ns();
  TRIREME_TRY(result, evaluate_checkpoint({.checkpoint = checkpoint,
                                           .config = config,
                                           .host = host,
                                           .data = *data.source,
                                           .num_sequences = data.num_samples,
                                           .on_ready = [&](const RunPlan& plan) {
                                             num_ranks = plan.num_ranks();
                                           }}));
  if (result.valid_tokens == 0) {
    return usage(options.data + ": the loss mask leaves no token to predict");
  }
  if (!io.launch.is_first()) return 0;
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  const EvalNumbers numbers = numbers_of(result, data.bytes);
  if (options.json) {
    nlohmann::ordered_json json = {{"model", checkpoint.folder()},
                                   {"step", checkpoint.info().step},
                                   {"data", options.data},
                                   {"tokens", result.valid_tokens},
                                   {"bytes", data.bytes},
                                   {"loss", finite(numbers.loss)},
                                   {"perplexity", finite(numbers.perplexity)},
                                   {"top1", numbers.top1},
                                   {"ranks", num_ranks},
                                   {"seconds", seconds}};
    if (numbers.bits_per_byte) json["bits_per_byte"] = finite(*numbers.bits_per_byte);
    io.out << json_text(json) << "\n";
    return 0;
  }
  print_text({checkpoint, options.data, model.reads_images(), data.bytes}, result, io.out);
  const std::string_view unit = counted_unit(model);
  io.err << fmt::format("{} {}s in {} on {} rank{}: {} {}s/s\n", result.valid_tokens, unit,
                        format_seconds(seconds), num_ranks, num_ranks == 1 ? "" : "s",
                        format_rate(double(result.valid_tokens) / std::max(seconds, 1e-9)), unit);
  return 0;
}

}  // namespace trireme
