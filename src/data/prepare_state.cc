#include "data/prepare_state.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json_text.h"

namespace trireme {
namespace {

using nlohmann::json;

json to_json(const PrepareState& state) {
  return {{"inputs", hex64(state.inputs_hash)},
          {"file", state.position.file},
          {"offset", state.position.offset},
          {"line", state.position.line},
          {"num_documents", state.report.num_documents},
          {"text_bytes", state.report.text_bytes},
          {"num_empty", state.report.num_empty},
          {"num_invalid", state.report.num_invalid},
          {"num_replaced", state.report.num_replaced},
          {"first_invalid", state.report.first_invalid},
          {"train_tokens", state.train_tokens},
          {"val_tokens", state.val_tokens}};
}

PrepareState from_json(const json& object, uint64_t inputs_hash) {
  return {.inputs_hash = inputs_hash,
          .position = {.file = object.at("file"),
                       .offset = object.at("offset"),
                       .line = object.at("line")},
          .report = {.num_documents = object.at("num_documents"),
                     .text_bytes = object.at("text_bytes"),
                     .num_empty = object.at("num_empty"),
                     .num_invalid = object.at("num_invalid"),
                     .num_replaced = object.at("num_replaced"),
                     .first_invalid = object.at("first_invalid")},
          .train_tokens = object.at("train_tokens"),
          .val_tokens = object.at("val_tokens")};
}

}  // namespace

Status save_prepare_state(const PrepareState& state, const std::string& path) {
  // A path in first_invalid may be invalid UTF-8.
  const auto text = lenient_json_text(to_json(state), 2);
  return write_file_atomically(path, text);
}

std::optional<PrepareState> load_prepare_state(const std::string& path, uint64_t inputs_hash) {
  const auto text = read_text_file(path, limits::kSmallFileBytes);
  if (!text.ok() || !check_json_limits(*text).ok()) return std::nullopt;
  try {
    const json object = parse_json(*text);
    if (object.at("inputs") != hex64(inputs_hash)) return std::nullopt;
    return from_json(object, inputs_hash);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace trireme
