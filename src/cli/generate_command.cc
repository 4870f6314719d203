#include "cli/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <ostream>

#include "base/file.h"
#include "base/units.h"
#include "cli/config_load.h"
#include "cli/find_checkpoint.h"
#include "comm/local/sole_rank.h"
#include "device/host.h"
#include "train/run_state.h"
#include "train/session.h"

namespace trireme {
namespace {

Result<std::string> prompt_text(const GenerateOptions& options) {
  if (options.prompt_file.empty()) return options.prompt;
  if (options.prompt_file != "-") return read_text_file(options.prompt_file);
  return std::string(std::istreambuf_iterator<char>(std::cin), {});
}

// A checkpoint's model, ready to generate on this machine.
struct LoadedModel {
  ModelSpec model;
  TensorTable table;
  Buffer params;
  std::unique_ptr<Tokenizer> tokenizer;
  DType compute = DType::F32;
};

Result<LoadedModel> load_model(const Checkpoint& checkpoint, int num_threads,
                               const std::vector<std::string>& model_folders) {
  TRIREME_TRY(config_text, checkpoint.read_attached("config.resolved.toml"));
  TRIREME_TRY(config, load_config_text(config_text, checkpoint.folder(), model_folders));
  Result<std::string> tokenizer_text = checkpoint.read_attached("tokenizer.json");
  if (!tokenizer_text.ok()) {
    return Error{ErrorKind::Usage, checkpoint.folder() +
                                       " has no tokenizer.json: the run was trained without "
                                       "data.tokenizer, so its tokens have no text"};
  }
  LoadedModel loaded;
  TRIREME_TRY(tokenizer, parse_tokenizer(*tokenizer_text));
  TRIREME_TRY(model, resolve_model(config.config.model, tokenizer->vocab_size()));
  loaded.tokenizer = std::move(tokenizer);
  loaded.model = model;
  loaded.compute = config.config.precision.compute == "fp32" ? DType::F32 : DType::BF16;
  const std::vector<ParamSpec> params = param_table(model, whole_model(model));
  for (const ParamSpec& param : params) {
    loaded.table.add(param.name, param.shape, loaded.compute, param.adjoins_previous);
  }
  loaded.params = Buffer::allocate(loaded.table.bytes());
  TRIREME_TRY_DONE(
      load_params(checkpoint, params, Frame(loaded.table, loaded.params.data()), num_threads));
  return loaded;
}

}  // namespace

Result<int> run_generate(const GenerateOptions& options, CommandIo& io) {
  TRIREME_TRY(checkpoint, find_checkpoint(options.checkpoint));
  TRIREME_TRY(prompt, prompt_text(options));
  const int num_threads = options.threads > 0 ? options.threads : num_available_cores();
  TRIREME_TRY(loaded, load_model(checkpoint, num_threads, io.model_folders));
  TRIREME_TRY(tokens, loaded.tokenizer->encode(prompt));

  ThreadTeam team(num_threads);
  const Buffer workspace = Buffer::allocate(num_threads * kWorkspaceBytesPerThread);
  Stream stream(team, {static_cast<std::byte*>(workspace.data()), size_t(workspace.bytes())});
  const std::vector<Isa> isas = supported_isas();
  SoleRank rank;
  Ctx ctx{stream, isas.empty() ? reference_kernels() : cpu_kernels(isas.back()), rank.group(),
          rank.group()};
  Decoder decoder(loaded.model, Frame(loaded.table, loaded.params.data()), loaded.compute);
  TokenSampler sampler({options.temperature, options.top_k, options.top_p, options.seed},
                       loaded.model.vocab_size);

  io.out << prompt << std::flush;
  const int64_t begin_ns = monotonic_ns();
  int64_t num_generated = 0;
  generate(ctx, decoder, *loaded.tokenizer, sampler, tokens, options.num_tokens,
           [&](int32_t token) {
             io.out << loaded.tokenizer->piece(token) << std::flush;
             ++num_generated;
           });
  io.out << "\n" << std::flush;
  const double seconds = double(monotonic_ns() - begin_ns) * 1e-9;
  io.err << fmt::format("{} tokens in {}: {} tokens/s\n", num_generated, format_duration(seconds),
                        format_rate(double(num_generated) / std::max(seconds, 1e-9)));
  return 0;
}

}  // namespace trireme
