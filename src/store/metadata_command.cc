#include "store/metadata_command.h"

#include <random>

namespace trireme {
namespace {

constexpr size_t kMostPackedPath = 4096;  // longer ones are refused by check_store_path, too
constexpr size_t kMostMessage = 1 << 20;

void pack_texts(PackedWriter& writer, const std::vector<std::string>& texts) {
  writer.number(uint32_t(texts.size()));
  for (const std::string& text : texts) writer.text(text);
}

std::vector<std::string> unpack_texts(PackedReader& reader) {
  std::vector<std::string> texts(reader.count(4));
  for (std::string& text : texts) text = reader.text(kMostPackedPath);
  return texts;
}

template <typename Number>
void pack_numbers(PackedWriter& writer, const std::vector<Number>& numbers) {
  writer.number(uint32_t(numbers.size()));
  for (const Number number : numbers) writer.number(number);
}

template <typename Number>
std::vector<Number> unpack_numbers(PackedReader& reader) {
  std::vector<Number> numbers(reader.count(sizeof(Number)));
  for (Number& number : numbers) number = reader.number<Number>();
  return numbers;
}

void pack_written(PackedWriter& writer, const std::vector<WrittenFile>& files) {
  writer.number(uint32_t(files.size()));
  for (const WrittenFile& file : files) {
    writer.text(file.path);
    pack(writer, file.record);
  }
}

std::vector<WrittenFile> unpack_written(PackedReader& reader) {
  std::vector<WrittenFile> files(reader.count(28));
  for (WrittenFile& file : files) {
    file.path = reader.text(kMostPackedPath);
    unpack(reader, file.record);
  }
  return files;
}

void pack_moves(PackedWriter& writer, const std::vector<Move>& moves) {
  writer.number(uint32_t(moves.size()));
  for (const Move& move : moves) {
    writer.number(move.block).number(move.chunk).number(move.from).number(move.to);
  }
}

std::vector<Move> unpack_moves(PackedReader& reader) {
  std::vector<Move> moves(reader.count(20));
  for (Move& move : moves) {
    move.block = reader.number<uint64_t>();
    move.chunk = reader.number<int32_t>();
    move.from = reader.number<int32_t>();
    move.to = reader.number<int32_t>();
  }
  return moves;
}

// The log of a store in folders has no maintainer, because one process at a time writes it.
void pack_maintainer(PackedWriter& writer, const MetadataCommand& command) {
  if (!command.tokens.empty()) pack_numbers(writer, command.tokens);
}
std::vector<uint64_t> unpack_maintainer(PackedReader& reader) {
  return reader.is_done() ? std::vector<uint64_t>{} : unpack_numbers<uint64_t>(reader);
}

// The first byte of an answer.
enum class AnswerKind : uint8_t { Error, Tokens, Overview, Files };

PackedWriter answer(AnswerKind kind) {
  PackedWriter writer;
  writer.number(uint8_t(kind));
  return writer;
}

// Returns a reader behind the first byte, or the error that the answer is.
Result<PackedReader> open_answer(std::string_view bytes, AnswerKind wanted) {
  PackedReader reader(bytes);
  const auto kind = AnswerKind(reader.number<uint8_t>());
  if (!reader.has_failed() && kind == AnswerKind::Error) {
    const auto error_kind = reader.number<uint8_t>();
    const std::string message = reader.text(kMostMessage);
    if (reader.is_done() && error_kind <= uint8_t(ErrorKind::Runtime)) {
      return Error{ErrorKind(error_kind), message};
    }
  }
  if (reader.has_failed() || kind != wanted) return damaged("an answer of the metadata is damaged");
  return reader;
}

}  // namespace

bool maintains(CommandKind kind) {
  return kind == CommandKind::Place || kind == CommandKind::Collect || kind == CommandKind::Server;
}

uint64_t drawn_number() {
  thread_local std::random_device device;
  return (uint64_t(device()) << 32 | device()) | 1;
}

std::string pack_command(const MetadataCommand& command) {
  PackedWriter writer;
  writer.number(uint8_t(command.kind)).number(command.number);
  switch (command.kind) {
    case CommandKind::Create:
      pack(writer, command.facts);
      pack(writer, command.servers);
      break;
    case CommandKind::Begin:
    case CommandKind::Remove:
      pack_texts(writer, command.paths);
      pack_maintainer(writer, command);
      break;
    case CommandKind::Commit:
      writer.number(command.view);
      pack_written(writer, command.files);
      pack(writer, command.blocks);
      break;
    case CommandKind::Abort:
      pack_numbers(writer, command.tokens);
      break;
    case CommandKind::Renew:
      pack_numbers(writer, command.tokens);
      if (command.progress.kind != UpkeepKind::None) pack(writer, command.progress);
      break;
    case CommandKind::Lose:
    case CommandKind::Place:
      writer.number(command.view);
      pack_moves(writer, command.moves);
      pack_maintainer(writer, command);
      break;
    case CommandKind::Collect:
      pack(writer, command.garbage);
      pack_maintainer(writer, command);
      break;
    case CommandKind::Server:
      writer.number(command.server_index);
      pack(writer, command.servers);
      pack_maintainer(writer, command);
      break;
  }
  return writer.take();
}

Result<MetadataCommand> unpack_command(std::string_view bytes) {
  PackedReader reader(bytes);
  const auto kind = reader.number<uint8_t>();
  if (kind > uint8_t(kLastCommandKind)) return damaged("a command of a store has an unknown kind");
  MetadataCommand command{.kind = CommandKind(kind), .number = reader.number<uint64_t>()};
  switch (command.kind) {
    case CommandKind::Create:
      unpack(reader, command.facts);
      unpack(reader, command.servers);
      break;
    case CommandKind::Begin:
    case CommandKind::Remove:
      command.paths = unpack_texts(reader);
      command.tokens = unpack_maintainer(reader);
      break;
    case CommandKind::Commit:
      command.view = reader.number<uint64_t>();
      command.files = unpack_written(reader);
      unpack(reader, command.blocks);
      break;
    case CommandKind::Abort:
      command.tokens = unpack_numbers<uint64_t>(reader);
      break;
    case CommandKind::Renew:
      command.tokens = unpack_numbers<uint64_t>(reader);
      if (!reader.is_done()) unpack(reader, command.progress);
      break;
    case CommandKind::Lose:
    case CommandKind::Place:
      command.view = reader.number<uint64_t>();
      command.moves = unpack_moves(reader);
      command.tokens = unpack_maintainer(reader);
      break;
    case CommandKind::Collect:
      unpack(reader, command.garbage);
      command.tokens = unpack_maintainer(reader);
      break;
    case CommandKind::Server:
      command.server_index = reader.number<int32_t>();
      unpack(reader, command.servers);
      command.tokens = unpack_maintainer(reader);
      break;
  }
  if (!reader.is_done()) return damaged("a command of a store is cut off or too long");
  return command;
}

std::string pack_error(const Error& error) {
  return answer(AnswerKind::Error).number(uint8_t(error.kind)).text(error.message).take();
}

std::string pack_tokens(const std::vector<uint64_t>& tokens) {
  PackedWriter writer = answer(AnswerKind::Tokens);
  pack_numbers(writer, tokens);
  return writer.take();
}

Result<std::vector<uint64_t>> unpack_tokens(std::string_view bytes) {
  TRIREME_TRY(reader, open_answer(bytes, AnswerKind::Tokens));
  std::vector<uint64_t> tokens = unpack_numbers<uint64_t>(reader);
  if (!reader.is_done()) return damaged("an answer of the metadata is damaged");
  return tokens;
}

std::string pack_question(const MetadataQuestion& question) {
  PackedWriter writer;
  writer.number(uint8_t(question.kind)).text(question.text).text(question.after);
  return writer.number(question.number).number(question.most).take();
}

Result<MetadataQuestion> unpack_question(std::string_view bytes) {
  PackedReader reader(bytes);
  const auto kind = reader.number<uint8_t>();
  if (kind > uint8_t(QuestionKind::Queue))
    return damaged("a question to a store has an unknown kind");
  MetadataQuestion question{.kind = QuestionKind(kind)};
  question.text = reader.text(kMostPackedPath);
  question.after = reader.text(kMostPackedPath);
  question.number = reader.number<uint64_t>();
  question.most = reader.number<uint32_t>();
  if (!reader.is_done()) return damaged("a question to a store is cut off or too long");
  return question;
}

std::string pack_overview(const Overview& overview) {
  PackedWriter writer = answer(AnswerKind::Overview);
  pack(writer, overview.facts);
  writer.number(overview.view).number(overview.num_files).number(overview.file_bytes);
  writer.number(overview.num_blocks).number(overview.num_incomplete);
  writer.number(overview.maintainer).number(overview.maintainer_renewals);
  pack(writer, overview.progress);
  pack(writer, overview.servers);
  pack_numbers(writer, overview.chunks_of_server);
  pack_numbers(writer, overview.bytes_of_server);
  pack_numbers(writer, overview.open_tokens);
  pack_numbers(writer, overview.renewals);
  pack(writer, overview.garbage);
  return writer.take();
}

Result<Overview> unpack_overview(std::string_view bytes) {
  TRIREME_TRY(reader, open_answer(bytes, AnswerKind::Overview));
  Overview overview;
  unpack(reader, overview.facts);
  overview.view = reader.number<uint64_t>();
  overview.num_files = reader.number<uint64_t>();
  overview.file_bytes = reader.number<uint64_t>();
  overview.num_blocks = reader.number<uint64_t>();
  overview.num_incomplete = reader.number<uint64_t>();
  overview.maintainer = reader.number<uint64_t>();
  overview.maintainer_renewals = reader.number<uint64_t>();
  unpack(reader, overview.progress);
  unpack(reader, overview.servers);
  overview.chunks_of_server = unpack_numbers<int64_t>(reader);
  overview.bytes_of_server = unpack_numbers<int64_t>(reader);
  overview.open_tokens = unpack_numbers<uint64_t>(reader);
  overview.renewals = unpack_numbers<uint64_t>(reader);
  unpack(reader, overview.garbage);
  if (!reader.is_done() || overview.renewals.size() != overview.open_tokens.size())
    return damaged("an answer of the metadata is damaged");
  return overview;
}

std::string pack_files(const FileAnswer& files) {
  PackedWriter writer = answer(AnswerKind::Files);
  pack_written(writer, files.files);
  pack(writer, files.blocks);
  return writer.take();
}

Result<FileAnswer> unpack_files(std::string_view bytes) {
  TRIREME_TRY(reader, open_answer(bytes, AnswerKind::Files));
  FileAnswer files;
  files.files = unpack_written(reader);
  unpack(reader, files.blocks);
  if (!reader.is_done()) return damaged("an answer of the metadata is damaged");
  return files;
}

}  // namespace trireme
