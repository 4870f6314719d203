#pragma once

#include <sys/types.h>

#include <nlohmann/json.hpp>
#include <string>

namespace trireme {

// A headless Chromium, controlled through Debian's chromium-driver with the WebDriver protocol.
class WebDriver {
 public:
  using Json = nlohmann::json;

  // True if both programs are installed; otherwise `why` names what is missing.
  static bool is_installed(std::string& why);

  // Starts the driver and a browser with a window of this size and colour scheme.
  struct Window {
    int width = 1280;
    int height = 1600;
    bool dark = false;
  };
  explicit WebDriver(const Window& window);
  ~WebDriver();
  WebDriver(const WebDriver&) = delete;
  WebDriver& operator=(const WebDriver&) = delete;

  void open(const std::string& url);
  // Returns the value of `return EXPRESSION`.
  Json evaluate(const std::string& expression);
  // Scrolls an element into view and clicks on its middle, which hits whatever a user would hit
  // there.
  void click(const std::string& selector);
  // Moves the pointer to a place inside an element, relative to its middle.
  void hover(const std::string& selector, int right = 0, int down = 0);
  void wheel(const std::string& selector, int delta);
  void drag(const std::string& selector, int right);
  void press(const std::string& selector, const std::string& key);
  // Returns the messages of the browser's console with level SEVERE.
  std::vector<std::string> console_errors();
  // Returns a PNG of the window.
  std::string screenshot();

 private:
  Json call(const std::string& method, const std::string& path, const Json& body);
  std::string element(const std::string& selector);
  Json pointer_move(const std::string& element, int right, int down);
  void act(const Json& actions, const char* type);

  int port_ = 0;
  pid_t driver_ = -1;
  std::string session_;
};

}  // namespace trireme
