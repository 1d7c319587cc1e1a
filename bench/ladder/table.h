// A table of text with aligned columns, for a terminal.
#ifndef CUFLASH_BENCH_TABLE_H_
#define CUFLASH_BENCH_TABLE_H_

#include <string>
#include <vector>

namespace cuflash::bench {

struct Column {
  std::string title;
  bool right = true;     // numbers stand at the right, words at the left
  std::size_t wrap = 0;  // break longer cells into lines of this width; 0: never
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void add(std::vector<std::string> cells);
  // A row of a name, and a sentence across the columns after it.
  void add_sentence(const std::string& name, const std::string& sentence);
  // The table, at most `width` columns wide where sentences are concerned.
  std::string text(std::size_t width = 118) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool sentence;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Breaks a text at spaces into lines of at most `width` characters.
std::vector<std::string> wrap(const std::string& text, std::size_t width);

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
