#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace trireme::api {

// A trained model that can generate text. Only one thread at a time may use it.
class Model {
 public:
  // Loads a checkpoint. If `path` is a run directory, it loads the newest good checkpoint of the
  // run. num_threads = 0 means all cores.
  static Model load(const std::string& path, int num_threads = 0);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  std::int64_t num_params() const;
  std::int64_t vocab_size() const;
  std::int64_t seq_len() const;  // longest context, in tokens

  // Both functions use the tokenizer that the model was trained with. They throw a Failure if it
  // was trained without one.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> tokens) const;

  // Returns the logits of the token that follows `tokens`: one number per vocabulary entry. The
  // length of `tokens` must be between 1 and seq_len().
  std::vector<float> logits(std::span<const std::int32_t> tokens);

  struct Content;  // internal to the library
  Content& content() { return *content_; }

 private:
  explicit Model(std::unique_ptr<Content> content);

  std::unique_ptr<Content> content_;
};

}  // namespace trireme::api
