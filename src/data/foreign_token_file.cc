#include "data/foreign_token_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "base/file.h"
#include "base/input_file.h"
#include "base/leftovers.h"
#include "data/token_file_writer.h"

namespace trireme {
namespace {

constexpr int32_t kLlmcMagic16 = 20240520;  // version 1: u16
constexpr int32_t kLlmcMagic32 = 20240801;  // version 7: u32

Result<ForeignTokenLayout> parse_llmc(std::span<const std::byte> bytes, int64_t file_bytes) {
  if (static_cast<int64_t>(bytes.size()) < kForeignHeaderBytes) {
    return damaged("a header of llm.c has 1024 bytes: truncated");
  }
  std::array<int32_t, 3> words;
  std::memcpy(words.data(), bytes.data(), sizeof words);
  const bool is_wide = words[0] == kLlmcMagic32;
  if (words[1] != (is_wide ? 7 : 1)) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("tokens of llm.c in version {} are not supported; use version {}",
                             words[1], is_wide ? 7 : 1)};
  }
  const ForeignTokenLayout layout{ForeignTokens::Llmc, is_wide ? 4 : 2, kForeignHeaderBytes,
                                  words[2]};
  if (layout.num_tokens < 1 ||
      kForeignHeaderBytes + layout.num_tokens * layout.token_bytes != file_bytes) {
    return damaged(
        fmt::format("the header declares {} tokens of {} bytes, but the file has {} bytes",
                    words[2], layout.token_bytes, file_bytes));
  }
  return layout;
}

// An open foreign file, which can be read at any token.
struct ForeignFile {
  InputFile input;
  ForeignTokenLayout layout;

  static Result<ForeignFile> open(const std::string& path, const OpenInput& open_input = {}) {
    TRIREME_TRY(input, open_named(path, open_input));
    std::vector<std::byte> start(static_cast<size_t>(std::min(input.bytes(), kForeignHeaderBytes)));
    TRIREME_TRY_DONE(input.read(0, start));
    auto layout = parse_foreign_tokens(start, input.bytes());
    if (!layout.ok()) return with_context(layout.error(), path);
    return ForeignFile{std::move(input), *layout};
  }

  // Reads tokens begin .. begin + out.size() - 1. Tokens from 2^31 on become negative and are
  // refused later. `packed` is reused between calls.
  Status read(int64_t begin, std::vector<std::byte>& packed, std::span<int32_t> out) const {
    const auto width = static_cast<size_t>(layout.token_bytes);
    packed.resize(out.size() * width);
    TRIREME_TRY_DONE(input.read(layout.data_offset + begin * layout.token_bytes, packed));
    for (size_t i = 0; i < out.size(); ++i) {
      uint32_t token = 0;
      std::memcpy(&token, packed.data() + i * width, width);
      out[i] = static_cast<int32_t>(token);
    }
    return Done{};
  }
};

// Calls visit(begin, tokens) for all tokens in blocks.
template <typename Visit>
Status for_each_block(int64_t num_tokens, Visit&& visit) {
  std::vector<int32_t> tokens;
  for (int64_t begin = 0; begin < num_tokens; begin += kTokensPerCopy) {
    tokens.resize(static_cast<size_t>(std::min(kTokensPerCopy, num_tokens - begin)));
    TRIREME_TRY_DONE(visit(begin, std::span<int32_t>(tokens)));
  }
  return Done{};
}

// `written` is the path of the new file.
Status compare(const ForeignFile& foreign, const TokenFile& file, const std::string& written) {
  std::vector<int32_t> theirs;
  std::vector<std::byte> packed;
  const int64_t num_tokens = foreign.layout.num_tokens;
  return for_each_block(num_tokens, [&](int64_t begin, std::span<int32_t> ours) -> Status {
    theirs.resize(ours.size());
    TRIREME_TRY_DONE(foreign.read(begin, packed, theirs));
    file.read(begin, ours);
    const auto differ = std::mismatch(ours.begin(), ours.end(), theirs.begin()).first;
    if (differ == ours.end()) return Done{};
    return damaged(
        fmt::format("{}: token {} does not read back", written, begin + (differ - ours.begin())));
  });
}

// Returns the text bytes of every token; 0 for the end of text.
std::vector<int64_t> piece_bytes_of(const Tokenizer* tokenizer) {
  std::vector<int64_t> bytes;
  if (tokenizer == nullptr) return bytes;
  for (int32_t token = 0; token < tokenizer->vocab_size(); ++token) {
    bytes.push_back(static_cast<int64_t>(tokenizer->piece(token).size()));
  }
  bytes[static_cast<size_t>(tokenizer->end_of_text())] = 0;
  return bytes;
}

std::string print_llmc_header(const TokenFile& file) {
  std::array<int32_t, kForeignHeaderBytes / 4> words{};
  const bool is_wide = file.header().token_bytes == 4;
  words[0] = is_wide ? kLlmcMagic32 : kLlmcMagic16;
  words[1] = is_wide ? 7 : 1;
  words[2] = static_cast<int32_t>(file.num_tokens());
  return {reinterpret_cast<const char*>(words.data()), sizeof words};
}

Status check_export(const TokenFile& file, ForeignTokens format) {
  if (file.header().has_loss_mask) {
    return Error{ErrorKind::Infeasible,
                 file.path() + " has a loss mask, which neither nanoGPT nor llm.c can hold"};
  }
  if (format == ForeignTokens::NanoGpt && file.header().token_bytes != 2) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("a vocabulary of {} does not fit into nanoGPT's 16-bit tokens; "
                             "use --format llmc",
                             file.vocab_size())};
  }
  if (format == ForeignTokens::Llmc && file.num_tokens() > INT32_MAX) {
    return Error{ErrorKind::Infeasible,
                 fmt::format("llm.c counts tokens in 31 bits, the file has {}", file.num_tokens())};
  }
  return Done{};
}

}  // namespace

Result<ForeignTokenLayout> parse_foreign_tokens(std::span<const std::byte> bytes,
                                                int64_t file_bytes) {
  int32_t magic = 0;
  if (bytes.size() >= sizeof magic) std::memcpy(&magic, bytes.data(), sizeof magic);
  if (magic == kLlmcMagic16 || magic == kLlmcMagic32) return parse_llmc(bytes, file_bytes);
  if (file_bytes == 0 || file_bytes % 2 != 0) {
    return damaged(fmt::format("{} bytes is not a whole number of 16-bit tokens", file_bytes));
  }
  return ForeignTokenLayout{.num_tokens = file_bytes / 2};
}

Result<ForeignTokenLayout> read_foreign_layout(const std::string& path,
                                               const OpenInput& open_input) {
  TRIREME_TRY(file, ForeignFile::open(path, open_input));
  return file.layout;
}

Result<TokenFileHeader> import_tokens(const std::string& path, const TokenMeaning& meaning,
                                      const std::string& out, const OpenInput& open_input) {
  TRIREME_TRY(foreign, ForeignFile::open(path, open_input));
  const uint64_t hash = meaning.tokenizer == nullptr ? 0 : meaning.tokenizer->hash();
  TRIREME_TRY(writer, TokenFileWriter::create(out, meaning.vocab_size, hash));
  const std::vector<int64_t> piece_bytes = piece_bytes_of(meaning.tokenizer);
  TokenFileWriter::Totals totals;
  std::vector<std::byte> packed;
  const int64_t num_tokens = foreign.layout.num_tokens;
  TRIREME_TRY_DONE(
      for_each_block(num_tokens, [&](int64_t begin, std::span<int32_t> tokens) -> Status {
        TRIREME_TRY_DONE(foreign.read(begin, packed, tokens));
        auto appended = writer.append(tokens);
        if (!appended.ok())
          return Error{ErrorKind::Damaged, path + ": " + appended.error().message};
        for (const int32_t token : tokens) {
          if (meaning.tokenizer == nullptr || token >= meaning.tokenizer->vocab_size()) continue;
          totals.num_documents += token == meaning.tokenizer->end_of_text();
          totals.text_bytes += piece_bytes[static_cast<size_t>(token)];
        }
        return Done{};
      }));
  TRIREME_TRY(header, writer.finish(totals));
  TRIREME_TRY(file, TokenFile::open(out));
  TRIREME_TRY_DONE(compare(foreign, file, out));
  return header;
}

Status export_tokens(const TokenFile& file, ForeignTokens format, const std::string& out) {
  TRIREME_TRY_DONE(check_export(file, format));
  remove_leftovers_of(out);
  TRIREME_TRY(target, AtomicFile::create(out));
  if (format == ForeignTokens::Llmc) TRIREME_TRY_DONE(target.write(print_llmc_header(file)));
  std::vector<std::byte> packed;
  const auto token_bytes = static_cast<size_t>(file.header().token_bytes);
  TRIREME_TRY_DONE(
      for_each_block(file.num_tokens(), [&](int64_t begin, std::span<int32_t> tokens) -> Status {
        file.read(begin, tokens);
        packed.resize(tokens.size() * token_bytes);
        for (size_t i = 0; i < tokens.size(); ++i)
          std::memcpy(packed.data() + i * token_bytes, &tokens[i], token_bytes);
        return target.write(packed);
      }));
  TRIREME_TRY_DONE(target.commit());
  TRIREME_TRY(foreign, ForeignFile::open(out));
  if (foreign.layout.num_tokens != file.num_tokens())
    return damaged(out + ": the written file has a different number of tokens");
  return compare(foreign, file, out);
}

}  // namespace trireme
