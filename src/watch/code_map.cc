#include "watch/code_map.h"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>

namespace trireme {
namespace {

constexpr int64_t kMostFileBytes = int64_t{512} << 20;
constexpr size_t kShownLetters = 160;

// Reads values out of a file that may be damaged.
class ElfText {
 public:
  explicit ElfText(std::string bytes) : bytes_(std::move(bytes)) {}
  template <typename T>
  bool read(uint64_t at, T& value) const {
    if (at > bytes_.size() || bytes_.size() - at < sizeof value) return false;
    const std::span<const char> from = std::span(bytes_.data(), bytes_.size()).subspan(at);
    std::copy_n(from.begin(), sizeof value, reinterpret_cast<char*>(&value));
    return true;
  }
  // A text that ends with 0.
  std::string text_at(uint64_t at) const {
    if (at >= bytes_.size()) return "";
    return bytes_.substr(at, ::strnlen(bytes_.data() + at, bytes_.size() - at));
  }

 private:
  std::string bytes_;
};

std::string read_whole(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  if (error || bytes > uint64_t(kMostFileBytes)) return "";
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return std::move(text).str();
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status), &std::free);
  std::string whole = status == 0 && text != nullptr ? text.get() : name;
  if (whole.size() > kShownLetters) whole = whole.substr(0, kShownLetters) + "...";
  return whole;
}

// The first address of the loadable part that begins at a place of the file.
bool address_of(const ElfText& elf, const Elf64_Ehdr& header, uint64_t offset, uint64_t& address) {
  for (int i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr part;
    if (!elf.read(header.e_phoff + uint64_t(i) * sizeof part, part)) return false;
    if (part.p_type != PT_LOAD || offset < part.p_offset) continue;
    if (offset >= part.p_offset + part.p_filesz) continue;
    address = part.p_vaddr + (offset - part.p_offset);
    return true;
  }
  return false;
}

bool is_elf(const ElfText& elf, Elf64_Ehdr& header) {
  return elf.read(0, header) && std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0 &&
         header.e_ident[EI_CLASS] == ELFCLASS64;
}

uint64_t hex_number(std::string_view text) {
  uint64_t value = 0;
  (void)std::from_chars(text.data(), text.data() + text.size(), value, 16);
  return value;
}

}  // namespace

Symbols Symbols::of_file(const std::string& path) {
  Symbols symbols;
  const ElfText elf(read_whole(path));
  Elf64_Ehdr header;
  if (!is_elf(elf, header)) return symbols;
  // The full table, which a stripped file does not have, comes before that of the exported ones.
  for (const uint32_t wanted : {uint32_t(SHT_SYMTAB), uint32_t(SHT_DYNSYM)}) {
    for (int i = 0; i < header.e_shnum && symbols.empty(); ++i) {
      Elf64_Shdr table, names;
      if (!elf.read(header.e_shoff + uint64_t(i) * sizeof table, table)) break;
      if (table.sh_type != wanted) continue;
      if (!elf.read(header.e_shoff + uint64_t(table.sh_link) * sizeof names, names)) continue;
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        if (!elf.read(table.sh_offset + at, symbol)) break;
        if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_value == 0) continue;
        symbols.functions_.push_back(
            {symbol.st_value, symbol.st_size, elf.text_at(names.sh_offset + symbol.st_name)});
      }
    }
  }
  std::sort(symbols.functions_.begin(), symbols.functions_.end(),
            [](const Function& a, const Function& b) { return a.begin < b.begin; });
  return symbols;
}

std::string Symbols::name_at(uint64_t address) const {
  auto after = std::upper_bound(
      functions_.begin(), functions_.end(), address,
      [](uint64_t value, const Function& function) { return value < function.begin; });
  if (after == functions_.begin()) return "";
  const Function& function = *--after;
  const uint64_t distance = address - function.begin;
  if (function.size > 0 && distance >= function.size) return "";
  return fmt::format("{}+0x{:x}", demangled(function.name), distance);
}

CodeMap::CodeMap(std::string_view maps) {
  std::istringstream lines{std::string(maps)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string range, rights, offset, device, inode, path;
    fields >> range >> rights >> offset >> device >> inode;
    std::getline(fields >> std::ws, path);
    const size_t dash = range.find('-');
    const bool is_code = rights.size() >= 3 && rights[2] == 'x' && path.starts_with('/');
    if (!is_code || dash == std::string::npos) continue;
    Part part{hex_number(std::string_view(range).substr(0, dash)),
              hex_number(std::string_view(range).substr(dash + 1)), 0, path};
    // Only the tables at the beginning of the file are needed here.
    std::ifstream file(path, std::ios::binary);
    std::vector<char> head(4096);
    file.read(head.data(), std::ssize(head));
    const ElfText elf(std::string(head.data(), size_t(file.gcount())));
    Elf64_Ehdr header;
    uint64_t address = 0;
    if (!is_elf(elf, header) || !address_of(elf, header, hex_number(offset), address)) continue;
    part.shift = address - part.begin;
    parts_.push_back(std::move(part));
  }
}

std::string CodeMap::name_at(uint64_t address, std::map<std::string, Symbols>& files) const {
  for (const Part& part : parts_) {
    if (address < part.begin || address >= part.end) continue;
    auto found = files.find(part.path);
    if (found == files.end()) found = files.emplace(part.path, Symbols::of_file(part.path)).first;
    const std::string file = std::filesystem::path(part.path).filename().string();
    const std::string name = found->second.name_at(address + part.shift);
    return name.empty() ? fmt::format("0x{:x} ({})", address + part.shift, file)
                        : fmt::format("{} ({})", name, file);
  }
  return fmt::format("0x{:x}", address);
}

}  // namespace trireme
