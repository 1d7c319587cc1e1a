// A table of text with aligned columns, for a terminal.
#ifndef CUFLASH_BENCH_TABLE_H_
#define CUFLASH_BENCH_TABLE_H_

#include <string>
#include <vector>

namespace cuflash::bench {

struct Column {
  std::string title;
  bool right = true;      // true if aligned right, as numbers are; words are aligned left
  std::size_t wrap = 0;   // break longer cells into lines of this width; 0: never
  std::size_t least = 0;  // in a narrow terminal break them into lines as short as this; 0: never
  int spare = 0;          // if that does not suffice, the highest is left out first; 0: never
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);
  // Adds a row of a name and a sentence that spans the columns after it.
  void add_sentence(const std::string& name, const std::string& sentence);
  // The table, at most as wide as the terminal: it shortens columns, then leaves some out and lists
  // them. Only columns that can be neither shortened nor left out can make it wider.
  std::string text() const;
  // Its width if nothing is shortened.
  std::size_t width() const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool sentence;
  };
  // A column that is shown.
  struct Shown {
    std::size_t index, limit, width;  // lines of cells are broken at `limit`, unless it is 0
  };
  std::size_t widest(std::size_t index, std::size_t limit) const;
  std::vector<Shown> fitted(std::size_t width) const;
  std::string missing(const std::vector<Shown>& shown) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// The number of characters on the screen of a UTF-8 text.
std::size_t display_width(const std::string& text);

// Breaks a text at spaces into lines of at most `width` characters.
std::vector<std::string> wrap(const std::string& text, std::size_t width);

// The text in lines that fit the terminal. A no-break space is printed as a space.
std::string paragraph(const std::string& text);

// "3.55", "35.5", "355".
std::string three_digits(double value);
// "512 B", "3.55 MB", "1.07 GB": three digits and a decimal unit.
std::string human_bytes(double bytes);
// "0", "31.7k", "2.10M".
std::string human_count(double count);
// "81.3 µs", "12.40 ms".
std::string human_ms(double ms);

}  // namespace cuflash::bench

#endif  // CUFLASH_BENCH_TABLE_H_
