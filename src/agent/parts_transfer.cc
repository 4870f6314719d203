#include "agent/parts_transfer.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <utility>

#include "base/guest_parts.h"
#include "comm/tcp/handshake.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

constexpr double kReachS = 5.0;
constexpr double kSilenceS = 10.0;  // without a byte
constexpr size_t kPieceBytes = size_t{1} << 20;
constexpr uint32_t kMostNameBytes = 512;

// Comes before the bytes of every file. The first one has the name of the host and no bytes, the
// last one has no name.
struct PartsFile {
  uint32_t magic = 0x50545254;
  uint32_t name_bytes = 0;
  uint64_t bytes = 0;
};

Status send_file(const Socket& socket, const std::string& name, const std::string& path,
                 const std::atomic<bool>& must_end) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  PartsFile head{.name_bytes = uint32_t(name.size())};
  if (!path.empty()) head.bytes = fs::file_size(path, error);
  if (error) return damaged(path + ": " + error.message());
  TRIREME_TRY_DONE(
      send_all(socket, std::as_bytes(std::span(&head, 1)), Deadline::after(kSilenceS)));
  TRIREME_TRY_DONE(send_all(socket, std::as_bytes(std::span(name)), Deadline::after(kSilenceS)));
  std::vector<char> piece(std::min<uint64_t>(kPieceBytes, head.bytes));
  for (uint64_t sent = 0; sent < head.bytes; sent += piece.size()) {
    piece.resize(std::min<uint64_t>(kPieceBytes, head.bytes - sent));
    file.read(piece.data(), std::streamsize(piece.size()));
    if (!file || must_end) return damaged(path + " cannot be read");
    TRIREME_TRY_DONE(send_all(socket, std::as_bytes(std::span(piece)), Deadline::after(kSilenceS)));
  }
  return Done{};
}

// True for FOLDER/FILE, which leads to no other folder.
bool is_file_of_part(const std::string& name) {
  const fs::path path(name);
  const auto is_plain = [](const std::string& word) { return !word.empty() && word[0] != '.'; };
  return std::distance(path.begin(), path.end()) == 2 && is_plain(path.begin()->string()) &&
         is_plain(path.filename().string()) && path.is_relative();
}

// Checkpoints that are being written have other names than complete ones (step_folder_name), and so
// have the folders in which ranks resume.
std::vector<std::string> files_of_parts(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string file = it->path().lexically_relative(folder).string();
    const bool is_of_step = file.starts_with("step-") && file.find(".tmp") == std::string::npos;
    if (is_of_step && is_file_of_part(file)) files.push_back(file);
  }
  return files;
}

struct ReceivedHead {
  std::string name;
  uint64_t bytes = 0;
};

Result<ReceivedHead> receive_head(const Socket& socket) {
  PartsFile head;
  TRIREME_TRY_DONE(
      receive_all(socket, std::as_writable_bytes(std::span(&head, 1)), Deadline::after(kSilenceS)));
  if (head.magic != PartsFile{}.magic || head.name_bytes > kMostNameBytes) {
    return damaged("a part of a checkpoint has arrived damaged");
  }
  ReceivedHead received{std::string(head.name_bytes, '\0'), head.bytes};
  TRIREME_TRY_DONE(receive_all(socket, std::as_writable_bytes(std::span(received.name)),
                               Deadline::after(kSilenceS)));
  return received;
}

Status receive_file(const Socket& socket, const ReceivedHead& head, const std::string& path) {
  std::error_code error;
  fs::create_directories(fs::path(path).parent_path(), error);
  std::ofstream file(path, std::ios::binary);
  std::vector<char> piece;
  for (uint64_t received = 0; received < head.bytes; received += piece.size()) {
    piece.resize(std::min<uint64_t>(kPieceBytes, head.bytes - received));
    TRIREME_TRY_DONE(
        receive_all(socket, std::as_writable_bytes(std::span(piece)), Deadline::after(kSilenceS)));
    file.write(piece.data(), std::streamsize(piece.size()));
  }
  file.flush();
  if (!file) return damaged(path + " cannot be written");
  return Done{};
}

// Receives all files, and puts them into their place at the end. The checksums of a part say later
// whether it is intact.
Status receive_parts(const Socket& socket, const std::string& root) {
  TRIREME_TRY(host, receive_head(socket));
  const std::string folder = guest_folder(root, host.name);
  const std::string unfinished = root + "/" + kUnfinishedGuest + fmt::format("{}", socket.fd());
  std::error_code error;
  fs::remove_all(unfinished, error);
  fs::create_directories(unfinished, error);
  Status result = Done{};
  while (result.ok()) {
    const Result<ReceivedHead> head = receive_head(socket);
    if (!head.ok()) {
      result = head.error();
    } else if (head->name.empty()) {
      break;
    } else if (!is_file_of_part(head->name)) {
      result = damaged("a part of a checkpoint has an impossible name");
    } else {
      result = receive_file(socket, *head, unfinished + "/" + head->name);
    }
  }
  if (result.ok()) {
    fs::remove_all(folder, error);
    fs::rename(unfinished, folder, error);
    if (error) result = damaged(folder + ": " + error.message());
  }
  fs::remove_all(unfinished, error);
  if (!result.ok()) return result;
  return send_all(socket, std::as_bytes(std::span("1", 1)), Deadline::after(kSilenceS));
}

}  // namespace

PartsSender::PartsSender(std::string address, std::string secret, std::string name,
                         std::string folder)
    : thread_([this, address = std::move(address), secret = std::move(secret),
               name = std::move(name), folder = std::move(folder)] {
        result_ = send(address, secret, name, folder);
        is_over_ = true;
      }) {}

PartsSender::~PartsSender() {
  must_end_ = true;
  thread_.join();
}

Status PartsSender::send(const std::string& address, const std::string& secret,
                         const std::string& name, const std::string& folder) {
  const std::vector<std::string> files = files_of_parts(folder);
  if (files.empty()) return Done{};
  TRIREME_TRY(socket, connect_to(address, Deadline::after(kReachS)));
  TRIREME_TRY_DONE(greet(socket, secret, {.purpose = Purpose::Parts}, Deadline::after(kReachS)));
  TRIREME_TRY_DONE(send_file(socket, name, "", must_end_));
  for (const std::string& file : files) {
    TRIREME_TRY_DONE(send_file(socket, file, folder + "/" + file, must_end_));
  }
  TRIREME_TRY_DONE(send_file(socket, "", "", must_end_));
  std::array<std::byte, 1> answer;
  return receive_all(socket, answer, Deadline::after(kSilenceS));
}

PartsReceivers::~PartsReceivers() {
  for (const auto& receiver : receivers_) {
    ::shutdown(receiver->socket.fd(), SHUT_RDWR);
    receiver->thread.join();
  }
}

void PartsReceivers::take(Socket socket, const std::string& folder) {
  std::erase_if(receivers_, [](const auto& receiver) {
    if (receiver->is_over) receiver->thread.join();
    return receiver->is_over.load();
  });
  if (folder.empty()) return;
  auto receiver = std::make_unique<Receiver>();
  receiver->socket = std::move(socket);
  receiver->thread = std::thread([own = receiver.get(), folder] {
    (void)receive_parts(own->socket, folder);
    own->is_over = true;
  });
  receivers_.push_back(std::move(receiver));
}

}  // namespace trireme
