#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "coord/base64.h"
#include "coord/http_answer.h"
#include "coord/membership.h"

namespace {

using namespace trireme;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

// What a Coord may send: the first byte of the input chooses the parser. What is taken comes back
// from its own text.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] % 4 == 0) {
    const Result<MembershipRecord> record = parse_record(text);
    if (record.ok()) require(parse_record(record_text(*record)).value() == *record);
  } else if (data[0] % 4 == 1) {
    const Result<AgentCard> card = parse_card(text);
    if (card.ok()) require(parse_card(card_text(*card)).value() == *card);
  } else if (data[0] % 4 == 2) {
    const Result<HttpAnswer> answer = parse_http_answer(text);
    if (answer.ok()) require(answer->status >= 100 && text.ends_with(answer->body));
  } else {
    const Result<std::string> bytes = bytes_of_base64(text);
    if (bytes.ok()) require(base64_of(*bytes).size() == text.size());
  }
  return 0;
}
