#include "trireme/data.h"

#include "api/content.h"
#include "data/prepare.h"
#include "device/host.h"
#include "tokenizer/byte_tokenizer.h"

namespace trireme::api {

PreparedData prepare_data(const PrepareRequest& request) {
  return guarded([&] {
    std::unique_ptr<Tokenizer> tokenizer = std::make_unique<ByteTokenizer>();
    if (request.tokenizer != "byte") tokenizer = value_or_fail(load_tokenizer(request.tokenizer));
    ThreadTeam team(request.num_threads > 0 ? request.num_threads : num_available_cores());
    PrepareOptions options;
    options.input.paths = request.texts;
    options.out = request.out_dir;
    options.val_fraction = request.val_fraction;
    const PrepareReport report = value_or_fail(prepare(*tokenizer, options, team));
    return PreparedData{.vocab_size = tokenizer->vocab_size(),
                        .train_tokens = report.train.num_tokens,
                        .val_tokens = report.val.num_tokens};
  });
}

}  // namespace trireme::api
