// Tests the report in a browser, as readers use it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "web_driver.h"

namespace trireme {
namespace {

namespace fs = std::filesystem;

void must_run(const std::string& command) {
  ASSERT_EQ(std::system((command + " >/dev/null 2>&1").c_str()), 0) << command;
}

// Two runs of four ranks, a page about each and a page about both. They are made once.
class ReportInABrowser : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::string missing;
    if (!WebDriver::is_installed(missing)) return;
    folder() =
        (fs::temp_directory_path() / ("trireme_browser." + std::to_string(::getpid()))).string();
    fs::create_directories(folder());
    const std::string train =
        std::string(TRIREME_PROGRAM) + " train " + TRIREME_SOURCE + "/configs/tiny-gpt2.toml " +
        "--set run.steps=12 --set run.threads_per_rank=1 --set run.eval_every=4 " +
        "--set parallel.pp=2 --set parallel.dp=2 --set batch.global_sequences=16 " +
        "--set batch.micro_sequences=2 --set parallel.zero=1 --set run.comm_timeout_s=300 --out " +
        folder();
    must_run(train + "/one");
    must_run(train + "/other --set parallel.schedule=zb_h1 --set optim.lr=0.002");
    // One step of a net of images.
    must_run(std::string(TRIREME_PROGRAM) + " train " + TRIREME_SOURCE +
             "/configs/tiny-gpt2.toml --set model.family=conv_net --set model.image_size=8 " +
             "--set model.image_channels=1 --set model.layers=1 --set model.seq_len=1 " +
             "--set model.vocab_size=10 --set data.source=synthetic " +
             "--set data.train= --set data.val_fraction=0.0 --set run.eval_every=0 " +
             "--set run.steps=1 --set run.threads_per_rank=1 --out " + folder() + "/image");
    // More ranks than a page lists.
    must_run(std::string(TRIREME_PROGRAM) + " train " + TRIREME_SOURCE +
             "/configs/tiny-gpt2.toml --set run.steps=4 --set run.threads_per_rank=1 " +
             "--set parallel.pp=2 --set parallel.dp=9 --set parallel.zero=1 " +
             "--set batch.global_sequences=18 --set run.comm_timeout_s=300 --out " + folder() +
             "/many");
    must_run(std::string(TRIREME_PROGRAM) + " report --compare " + folder() + "/one " + folder() +
             "/other");
    // A sweep in which one trial is stopped and one diverges, and a learning-rate range test.
    const std::string sweep = std::string(TRIREME_PROGRAM) + " sweep " + TRIREME_SOURCE +
                              "/configs/tiny-gpt2.toml --set model.layers=1 --set " +
                              "run.threads_per_rank=1 --out " + folder();
    must_run(sweep + "/sweep --set run.steps=20 --over optim.lr=3e-3,1e-3,1e-7,1e30 --over " +
             "optim.name=adamw");
    must_run(sweep + "/list --set run.steps=4 --over optim.lr=3e-4,1e-3,3e-3");
    must_run(sweep + "/range --lr-range 1e-5..1e3 --steps 100");
    // A run with experts, the pages of a plan and of a search, and the page of a schedule.
    must_run(std::string(TRIREME_PROGRAM) + " train " + TRIREME_SOURCE +
             "/configs/tiny-moe.toml --set run.steps=12 --set run.threads_per_rank=1 --out " +
             folder() + "/experts");
    must_run(std::string(TRIREME_PROGRAM) + " plan " + TRIREME_SOURCE +
             "/configs/tiny-gpt2.toml --set model.preset=gpt2-774m --set parallel.pp=4 " +
             "--set parallel.tp=2 --set parallel.schedule=zb_h1 --set batch.global_sequences=8 " +
             "--set batch.micro_sequences=1 --set precision.compute=bf16 --cluster " +
             TRIREME_SOURCE + "/clusters/dgx-a100-80g.toml --html " + folder() + "/plan.html");
    // A plan of more ranks than a page shows, one of them slow.
    must_run(std::string(TRIREME_PROGRAM) + " plan " + TRIREME_SOURCE +
             "/configs/tiny-gpt2.toml --set model.preset=gpt2-774m --set parallel.pp=4 " +
             "--set parallel.tp=2 --set parallel.dp=4 --set batch.global_sequences=32 " +
             "--set batch.micro_sequences=1 --set precision.compute=bf16 --cluster " +
             TRIREME_SOURCE + "/clusters/dgx-a100-80g.toml --slow-rank 13=1.5 " +
             "--slow-link cluster=0.5 --failures llama3 --days 300 --html " + folder() +
             "/what_if.html");
    must_run(std::string(TRIREME_PROGRAM) + " plan " + TRIREME_SOURCE +
             "/configs/tiny-gpt2.toml --ranks 4 --search --cluster " + TRIREME_SOURCE +
             "/clusters/dgx-a100-80g.toml --html " + folder() + "/search.html");
    ASSERT_EQ(std::system((std::string(TRIREME_PROGRAM) +
                           " schedule zb_v --stages 4 --microbatches 8 --format html >" + folder() +
                           "/schedule.html")
                              .c_str()),
              0);
  }
  static void TearDownTestSuite() {
    if (!folder().empty()) fs::remove_all(folder());
  }
  static std::string& folder() {
    static std::string path;
    return path;
  }

  void SetUp() override {
    std::string missing;
    if (!WebDriver::is_installed(missing)) GTEST_SKIP() << missing;
  }
  void open(const WebDriver::Window& window, const std::string& page) {
    browser_ = std::make_unique<WebDriver>(window);
    browser_->open("file://" + folder() + page);
  }
  // Checks that there were no errors, and saves a picture if TRIREME_SCREENSHOTS=FOLDER is set.
  void look(const std::string& name) {
    EXPECT_EQ(browser_->console_errors(), std::vector<std::string>());
    const char* pictures = std::getenv("TRIREME_SCREENSHOTS");
    if (pictures == nullptr) return;
    const std::string path = std::string(pictures) + "/" + name + ".png";
    ASSERT_TRUE(write_file_atomically(path, browser_->screenshot()).ok());
  }
  double range(const char* end) {
    const std::string expression =
        std::string("+document.querySelector('#timeline-range').dataset.") + end;
    return browser_->evaluate(expression);
  }
  double length() { return range("to") - range("from"); }
  std::string tip() {
    return browser_->evaluate(
        "getComputedStyle(document.querySelector('#tip')).display === 'none' ? '' : "
        "document.querySelector('#tip').textContent");
  }
  double brightness() {  // of the background of the page
    return browser_->evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3)"
        ".reduce((sum, part) => sum + +part, 0) / 3");
  }
  void scroll_to(const std::string& selector) {
    browser_->evaluate("document.querySelector('" + selector + "').scrollIntoView()");
  }

  std::unique_ptr<WebDriver> browser_;
};

TEST_F(ReportInABrowser, EverySectionHasItsContent) {
  open({}, "/one/report.html");
  EXPECT_EQ(browser_->evaluate("document.title"), "Trireme: one");
  for (const char* section : {"curves", "timeline", "attribution", "diagnosis", "memory", "bytes",
                              "configuration", "reproduce"}) {
    EXPECT_GT(
        browser_->evaluate(std::string("document.querySelector('#") + section + "').offsetHeight")
            .get<double>(),
        60.0)
        << section;
  }
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#bytes .bad').length"), 0);
  EXPECT_GE(browser_->evaluate("document.querySelectorAll('#bytes .good').length").get<int>(), 8);
  EXPECT_NE(browser_->evaluate("document.querySelector('#attribution p').textContent")
                .get<std::string>()
                .find("was predicted to take"),
            std::string::npos);
  EXPECT_NE(browser_->evaluate("document.querySelector('#memory').textContent")
                .get<std::string>()
                .find("BW both gradients"),
            std::string::npos);
  look("top");
  for (const char* section : {"timeline", "attribution", "memory", "bytes"}) {
    scroll_to(std::string("#") + section);
    look(section);
  }
}

TEST_F(ReportInABrowser, TheTimelineIsZoomedAndMovedByEveryMeans) {
  open({}, "/one/report.html");
  const double whole = length();
  EXPECT_GT(whole, 0.0);
  browser_->wheel("#timeline-canvas", -120);
  const double nearer = length();
  EXPECT_LT(nearer, whole);
  browser_->click("#timeline-in");
  EXPECT_LT(length(), nearer);

  const double from = range("from");
  browser_->drag("#timeline-canvas", -80);
  EXPECT_GT(range("from"), from);
  browser_->click("#timeline-left");
  EXPECT_LT(range("from"), range("to"));
  const double before = range("from");
  browser_->press("#timeline-canvas", "\uE014");  // the right arrow key
  EXPECT_GT(range("from"), before);
  browser_->press("#timeline-canvas", "+");
  const double nearest = length();
  browser_->press("#timeline-canvas", "-");
  EXPECT_GT(length(), nearest);
  look("timeline_zoomed");
  browser_->click("#timeline-whole");
  EXPECT_DOUBLE_EQ(length(), whole);

  browser_->click("#timeline-step button:last-child");
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#timeline-step [aria-pressed=true]')"
                               ".length"),
            1);
  const double height =
      browser_->evaluate("document.querySelector('#timeline-canvas').offsetHeight");
  browser_->click("#timeline-layers");
  EXPECT_GT(
      browser_->evaluate("document.querySelector('#timeline-canvas').offsetHeight").get<double>(),
      height);
  look("timeline_layers");
}

TEST_F(ReportInABrowser, HoveringNamesWhatIsThere) {
  open({}, "/one/report.html");
  const double width = browser_->evaluate("document.querySelector('#timeline-canvas').offsetWidth");
  std::string seen;
  for (double part = -0.35; part < 0.5; part += 0.05) {
    browser_->hover("#timeline-canvas", int(part * width), -75);  // in the row of rank 0
    seen += tip() + "\n";
  }
  EXPECT_NE(seen.find("rank "), std::string::npos) << seen;
  EXPECT_TRUE(seen.find("predicted: ") != std::string::npos ||
              seen.find("measured: ") != std::string::npos)
      << seen;

  browser_->hover("#memory-canvas", 100, 150);
  EXPECT_NE(tip().find("live"), std::string::npos) << tip();
  look("memory_tip");
  browser_->hover("#curves svg", 50, 0);
  EXPECT_NE(tip().find("step "), std::string::npos) << tip();
  EXPECT_NE(tip().find("each step: "), std::string::npos) << tip();
  browser_->hover("#attribution rect", 0, 0);
  EXPECT_NE(tip().find("%"), std::string::npos) << tip();
}

TEST_F(ReportInABrowser, ThemeAndScalesFollowTheirSwitches) {
  open({}, "/one/report.html");
  EXPECT_GT(brightness(), 200.0);
  browser_->click("#theme");  // switches to light
  EXPECT_GT(brightness(), 200.0);
  browser_->click("#theme");  // switches to dark
  EXPECT_LT(brightness(), 60.0);
  look("dark_by_switch");
  const std::string path = "document.querySelector('#curves svg path').getAttribute('d')";
  const std::string linear = browser_->evaluate(path);
  browser_->click("#curve-y [data-value=log]");
  EXPECT_NE(browser_->evaluate(path), linear);
  look("log");
  browser_->click("#curve-y [data-value=linear]");
  EXPECT_EQ(browser_->evaluate(path), linear);
  browser_->click("#curve-x [data-value=tokens]");
  look("tokens");
}

TEST_F(ReportInABrowser, FollowsADarkSystem) {
  open({.dark = true}, "/one/report.html");
  EXPECT_LT(brightness(), 60.0);
  look("dark");
  browser_->click("#theme");
  EXPECT_GT(brightness(), 200.0);
}

TEST_F(ReportInABrowser, FitsANarrowWindow) {
  open({.width = 500, .height = 1400}, "/one/report.html");
  EXPECT_LE(browser_->evaluate("document.documentElement.scrollWidth - innerWidth").get<int>(), 0);
  look("narrow");
  scroll_to("#attribution");
  look("narrow_attribution");
}

TEST_F(ReportInABrowser, ComparisonNamesWhatDiffers) {
  open({}, "/one/comparison.html");
  const std::string text = browser_->evaluate("document.querySelector('#comparison').textContent");
  EXPECT_NE(text.find("parallel.schedule"), std::string::npos);
  EXPECT_NE(text.find("optim.lr"), std::string::npos);
  EXPECT_EQ(text.find("model.layers"), std::string::npos);
  EXPECT_GE(browser_->evaluate("document.querySelectorAll('#curves svg').length").get<int>(), 4);
  // Each run has one colour and one key, and no table is wider than the page.
  EXPECT_EQ(browser_->evaluate("[...document.querySelector('#curves .card').querySelectorAll("
                               "'.key')].map(key => key.textContent).join()"),
            "one,other");
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('.scroll')].filter(box => "
                               "box.scrollWidth > box.clientWidth).length"),
            0);
  look("comparison");
}

// A mixture of data is a list of objects.
TEST_F(ReportInABrowser, AKeyWhoseValueIsAListIsShownAsText) {
  open({}, "/one/comparison.html");
  EXPECT_EQ(browser_->evaluate("keyValueText([{path: 'a.tok', weight: 2}])"),
            R"([{"path":"a.tok","weight":2}])");
  EXPECT_EQ(browser_->evaluate("keyValueText(8) + keyValueText(null)"), "8–");
}

// A net of images has no tokens, heads or vocabulary; and a curve of one point is a dot.
TEST_F(ReportInABrowser, ARunOfOneStepOfImagesShowsItsPointAndItsUnits) {
  open({}, "/image/report.html");
  const std::string text = browser_->evaluate("document.querySelector('main').innerText");
  EXPECT_NE(text.find("images per second"), std::string::npos) << text;
  EXPECT_NE(text.find("nats per image"), std::string::npos) << text;
  EXPECT_NE(text.find("images of 8 x 8 with 1 channel, 10 classes"), std::string::npos) << text;
  for (const char* wrong : {"okens per second", "per token", "heads of", "vocabulary"}) {
    EXPECT_EQ(text.find(wrong), std::string::npos) << wrong;
  }
  const std::string loss = "document.querySelector('#curves svg')";
  EXPECT_EQ(browser_->evaluate(loss + ".querySelectorAll('circle').length"),
            3);  // with the validation
  EXPECT_EQ(browser_->evaluate("[..." + loss +
                               ".querySelectorAll('text')].filter(one => "
                               "one.textContent === '1').length"),
            1);
}

TEST_F(ReportInABrowser, ASweepComparesItsTrials) {
  for (const bool is_narrow : {false, true}) {
    WebDriver::Window window{.dark = is_narrow};
    if (is_narrow) window.width = 380;
    open(window, "/sweep/sweep.html");
    EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#trials tr')].slice(1).map(row => "
                                 "row.cells[3].textContent).join()"),
              "best,finished,stopped,diverged");
    EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#curves path').length"), 4);
    EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#swept svg').length"), 2);
    EXPECT_NE(browser_->evaluate("document.querySelector('#reproduce pre').textContent")
                  .get<std::string>()
                  .find("--set optim.lr=3e-3"),
              std::string::npos);
    scroll_to("#swept");
    browser_->hover("#swept circle", 0, 0);
    EXPECT_NE(tip().find("optim.lr = "), std::string::npos) << tip();
    EXPECT_EQ(browser_->evaluate("document.documentElement.scrollWidth <= innerWidth"), true);
    look(is_narrow ? "sweep_narrow" : "sweep");
  }
}

// A list whose neighbours have one ratio is drawn with equal distances, and a trial has one colour
// in the table, in the curves and at its key.
TEST_F(ReportInABrowser, AListOfFactorsHasALogarithmicAxisAndEveryTrialOneColour) {
  open({}, "/list/sweep.html");
  const std::vector<double> x = browser_->evaluate(
      "[...document.querySelectorAll('#swept circle')].map(dot => +dot.getAttribute('cx'))"
      ".sort((a, b) => a - b)");
  ASSERT_EQ(x.size(), 3u);
  EXPECT_NEAR((x[1] - x[0]) / (x[2] - x[0]), std::log(1e-3 / 3e-4) / std::log(10.0), 0.01);
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#swept text')].map(one => "
                               "one.textContent).filter(text => /^0.00/.test(text)).join()"),
            "0.0003,0.001,0.003");
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#swept circle')].map(dot => "
                               "dot.getAttribute('fill')).sort().join() === "
                               "[...document.querySelectorAll('#trials .key i')].map(mark => "
                               "mark.style.background).sort().join()"),
            true);
  open({}, "/sweep/sweep.html");  // the stopped trial is hollow, in its own colour
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#swept svg')[0]"
                               ".querySelectorAll('circle[stroke]')].map(dot => "
                               "dot.getAttribute('stroke')).join()"),
            "var(--s2)");
  EXPECT_EQ(browser_->evaluate("data.sweep.trials[2].curve.length === data.sweep.trials[2].steps"),
            true);
}

TEST_F(ReportInABrowser, ThePredictedTimelineEndsWhereTheTextSays) {
  open({}, "/one/report.html");
  EXPECT_NEAR(browser_
                  ->evaluate("Math.max(...data.runs[0].ranks.ranks.map(rank => "
                             "rank.predicted.end_us.at(-1)))")
                  .get<double>(),
              browser_->evaluate("data.runs[0].summary.step_s_predicted * 1e6").get<double>(), 0.1);
  EXPECT_EQ(browser_->evaluate("data.runs[0].ranks.ranks.every(rank => "
                               "rank.predicted.actions.includes('dp'))"),
            true);
  EXPECT_EQ(browser_->evaluate("/^[0-9.]+ .last [0-9.]+.$/.test([...document.querySelectorAll("
                               "'.tile')].find(tile => /training loss/.test(tile.textContent))"
                               ".querySelector('b').textContent)"),
            true);
  open({}, "/plan.html");
  EXPECT_NEAR(browser_
                  ->evaluate("Math.max(...data.plan.ranks.ranks.map(rank => "
                             "rank.predicted.end_us.at(-1)))")
                  .get<double>(),
              browser_->evaluate("data.plan.summary.step_s * 1e6").get<double>(), 0.1);
}

// The canvas ends with the last box, at the time that the text beside the buttons names.
TEST_F(ReportInABrowser, TheTimelineEndsWithItsLastBox) {
  for (const char* page : {"/one/report.html", "/plan.html", "/schedule.html"}) {
    open({}, page);
    const char* last =
        "Math.max(...(data.plan || data.runs[0]).ranks.ranks.flatMap(rank => ["
        "...(rank.predicted ? rank.predicted.end_us : []), "
        "...((rank.measured || [{end_us: [0]}])[0]).end_us]))";
    EXPECT_NEAR(range("to") * 1e6, browser_->evaluate(last).get<double>(), 0.01) << page;
  }
}

// More than 16 ranks are shown as classes that the plan predicts alike, each with its count.
TEST_F(ReportInABrowser, ManyRanksFoldIntoClassesWithCounts) {
  for (const bool is_phone : {false, true}) {
    open({.width = is_phone ? 390 : 1280, .height = 900}, "/many/report.html");
    const std::string text =
        browser_->evaluate("document.querySelector('#attribution').textContent");
    EXPECT_NE(text.find("18 of 18 ranks are shown, as 2 classes"), std::string::npos) << text;
    // The table of memory has a row for each class, and every rank belongs to one.
    EXPECT_EQ(browser_->evaluate("[...document.querySelector('#bytes table').rows].slice(1).map("
                                 "row => row.cells[0].textContent.split(':')[0]).join()"),
              "9 ranks,9 ranks");
    EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#bytes .bad').length"), 0);
    scroll_to("#attribution");
    look(is_phone ? "many_phone" : "many");
    scroll_to("#bytes");
    look(is_phone ? "many_bytes_phone" : "many_bytes");
  }
}

// The lowest and the highest grid line of a chart carry a number and enclose its curves.
TEST_F(ReportInABrowser, AxesBeginAndEndWithANumber) {
  open({}, "/one/report.html");
  EXPECT_EQ(
      browser_->evaluate(
          "[...document.querySelectorAll('#curves svg')].filter(picture => {"
          "const lines = [...picture.querySelectorAll('line[stroke=\"var(--line)\"]')]"
          ".map(line => +line.getAttribute('y1'));"
          "const box = [...picture.querySelectorAll('path')].map(path => path.getBBox());"
          "return Math.min(...lines) > Math.min(...box.map(one => one.y)) + 1 || "
          "Math.max(...lines) < Math.max(...box.map(one => one.y + one.height)) - 1}).length"),
      0);
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#curves svg')].filter(picture => "
                               "[...picture.querySelectorAll('text')].some(text => "
                               "text.textContent === '12')).length === "
                               "document.querySelectorAll('#curves svg').length"),
            true);
}

// On a phone and on a desk: no text of a picture is smaller than 11 pixels or leaves its picture.
TEST_F(ReportInABrowser, NoTextOfAPictureIsSmallOrClipped) {
  for (const char* page :
       {"/one/report.html", "/one/comparison.html", "/sweep/sweep.html", "/list/sweep.html",
        "/range/sweep.html", "/experts/report.html", "/plan.html", "/what_if.html"}) {
    for (const int width : {390, 1280}) {
      open({.width = width, .height = 1600, .dark = width == 390}, page);
      EXPECT_EQ(browser_->evaluate("innerWidth").get<int>(), width);
      EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('svg text')].filter(text => {"
                                   "const own = text.getBoundingClientRect(), "
                                   "its = text.ownerSVGElement.getBoundingClientRect(), "
                                   "scale = its.width / text.ownerSVGElement.viewBox.baseVal.width;"
                                   "return text.textContent && (own.left < its.left - 1 || "
                                   "own.right > its.right + 1 || own.top < its.top - 1 || "
                                   "own.bottom > its.bottom + 1 || "
                                   "parseFloat(getComputedStyle(text).fontSize) * scale < 10.9)})"
                                   ".map(text => text.textContent).join(' | ')"),
                "")
          << page << " at " << width;
      EXPECT_EQ(browser_->evaluate("document.documentElement.scrollWidth <= innerWidth"), true)
          << page << " at " << width;
      std::string name = page;
      std::replace(name.begin(), name.end(), '/', '_');
      look(name.substr(1) + (width == 390 ? ".phone" : ".desk"));
    }
  }
}

TEST_F(ReportInABrowser, ARangeTestShowsWhatItSuggests) {
  open({}, "/range/sweep.html");
  EXPECT_GE(browser_->evaluate("document.querySelectorAll('#range path').length"), 2);
  const std::string marks = browser_->evaluate(
      "[...document.querySelectorAll('#range line title')].map(one => one.textContent).join()");
  EXPECT_NE(marks.find("suggested"), std::string::npos) << marks;
  EXPECT_NE(marks.find("diverged"), std::string::npos) << marks;
  browser_->hover("#range svg", 0, 0);
  EXPECT_NE(tip().find("learning rate "), std::string::npos) << tip();
  look("range");
}

// The commands of the page run as they stand, whatever folder the reader is in, and repeat the run.
TEST_F(ReportInABrowser, TheCommandsOfHowItWasRunRunFromAnotherFolder) {
  open({}, "/experts/report.html");
  const std::string commands =
      browser_->evaluate("document.querySelector('#reproduce pre').textContent");
  const std::string script = folder() + "/again.sh";
  ASSERT_TRUE(write_file_atomically(script, "set -e\n" + commands + "\n").ok());
  must_run("cd / && bash " + script);
  const auto last_loss = [](const std::string& run) {
    const std::string text = read_text_file(folder() + run + "/summary.json").value();
    const size_t at = text.find("\"final_loss\"");
    return text.substr(at, text.find(',', at) - at);
  };
  EXPECT_EQ(last_loss("/experts-again"), last_loss("/experts"));
  EXPECT_NE(last_loss("/experts").find('.'), std::string::npos);
  EXPECT_TRUE(fs::exists(folder() + "/experts-again/report.html"));
}

// The command on the page of a sweep trains its best trial again, from another folder.
TEST_F(ReportInABrowser, TheCommandOfASweepRunsFromAnotherFolder) {
  open({}, "/list/sweep.html");
  const std::string commands =
      browser_->evaluate("document.querySelector('#reproduce pre').textContent");
  const std::string script = folder() + "/best.sh";
  ASSERT_TRUE(write_file_atomically(script, "set -e\n" + commands + "\n").ok());
  must_run("cd / && bash " + script);
  EXPECT_TRUE(fs::exists(folder() + "/list-best/report.html"));
}

TEST_F(ReportInABrowser, ExpertsAreSeen) {
  open({}, "/experts/report.html");
  EXPECT_NE(browser_->evaluate("document.querySelector('#curves').textContent")
                .get<std::string>()
                .find("Visits of every expert"),
            std::string::npos);
  scroll_to("#curves .charts .card:last-child");
  look("experts");
}

TEST_F(ReportInABrowser, APlanHasItsPage) {
  open({}, "/plan.html");
  for (const char* section : {"timeline", "attribution", "memory", "bytes", "configuration"}) {
    EXPECT_GT(
        browser_->evaluate(std::string("document.querySelector('#") + section + "').offsetHeight")
            .get<double>(),
        60.0)
        << section;
  }
  // Memory and traffic have a bar for each of the eight ranks.
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#bytes svg').length"), 2);
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#bytes svg:first-of-type text')]"
                               ".filter(text => /^rank/.test(text.textContent)).length"),
            16);
  const double whole = length();
  browser_->wheel("#timeline-canvas", -120);
  EXPECT_LT(length(), whole);
  browser_->click("#timeline-whole");
  look("plan");
  scroll_to("#attribution");
  look("plan_attribution");
  scroll_to("#bytes");
  look("plan_bytes");
}

TEST_F(ReportInABrowser, ADisturbedPlanShowsWhoWaitsAndWhatWouldChangeIt) {
  open({}, "/what_if.html");
  // A row for each cause, one for all of them and the head; four groups of ranks and the head.
  EXPECT_EQ(browser_->evaluate("[...document.querySelectorAll('#what-if table')]"
                               ".map(table => table.rows.length).join()"),
            "4,5");
  const std::string shown =
      browser_->evaluate("document.querySelector('#timeline > p').textContent");
  EXPECT_NE(shown.find("13 (slowest)"), std::string::npos) << shown;
  EXPECT_NE(shown.find("(median)"), std::string::npos) << shown;
  const std::string first =
      browser_->evaluate("document.querySelector('#diagnosis tr:nth-child(2)').textContent");
  EXPECT_NE(first.find("straggler"), std::string::npos) << first;
  EXPECT_NE(first.find("rank 13"), std::string::npos) << first;
  look("what_if");
  scroll_to("#diagnosis");
  look("diagnosis");
}

TEST_F(ReportInABrowser, APlanShowsWhatFailuresWillCost) {
  open({.dark = true}, "/what_if.html");
  scroll_to("#goodput");
  // The distribution, the share by interval, the time between failures, and the losses by cause.
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#goodput svg').length"), 4);
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('#goodput details tr').length"), 19);
  const std::string sentence =
      browser_->evaluate("document.querySelector('#goodput > p').textContent");
  EXPECT_NE(sentence.find("a job of 32 devices fails once in 66 days"), std::string::npos)
      << sentence;
  browser_->hover("#goodput circle", 0, 0);
  EXPECT_NE(tip().find("%"), std::string::npos) << tip();
  look("goodput");
}

TEST_F(ReportInABrowser, ASearchListsItsLayouts) {
  open({}, "/search.html");
  EXPECT_GT(browser_->evaluate("document.querySelectorAll('#layouts tr').length"), 2);
  EXPECT_EQ(browser_->evaluate("document.querySelector('#layouts th:last-child').textContent"),
            "layout");
  look("search");
}

TEST_F(ReportInABrowser, AScheduleHasItsPage) {
  open({.dark = true}, "/schedule.html");
  EXPECT_EQ(browser_->evaluate("document.title"), "Trireme: zb_v");
  EXPECT_GT(length(), 0.0);
  EXPECT_EQ(browser_->evaluate("document.querySelectorAll('section > *').length > 0"), true);
  // Boxes of the second chunk are paler than those of the first: rank 3 begins with F0.0, F0.1.
  const std::string pixel =
      "(at => { const canvas = document.querySelector('#timeline-canvas'), left = "
      "+canvas.dataset.left, scale = (canvas.width - left) / 51.51; return [...canvas"
      ".getContext('2d').getImageData(left + (at + 0.1) * scale, canvas.height - 40, 1, 1).data]"
      ".slice(0, 3).reduce((sum, part) => sum + part, 0); })";
  EXPECT_GT(browser_->evaluate(pixel + "(4)").get<int>(),
            browser_->evaluate(pixel + "(3)").get<int>() + 60);
  look("schedule");
}

}  // namespace
}  // namespace trireme
