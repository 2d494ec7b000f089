class Holdfast < Formula
  desc "Distributed lock on Redis: the C library and, on Linux, the program"
  homepage "https://holdfast.example"
  url "https://holdfast.example/releases/holdfast-@VERSION@.tar.gz"
  sha256 "@SHA256@"
  license "Apache-2.0"

  depends_on "cmake" => :build
  depends_on "hiredis"
  depends_on "openssl@3"

  on_linux do
    depends_on "jansson" => :build
    depends_on "ncurses"
  end

  def install
    system "cmake", "-S", ".", "-B", "build", "-DHOLDFAST_TESTS=OFF", *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    (testpath/"first.c").write <<~C
      #include <holdfast/holdfast.h>
      #include <stdio.h>
      int main(void) { return puts(hf_version()) < 0; }
    C
    system ENV.cc, "first.c", "-I#{include}", "-L#{lib}", "-lholdfast", "-o", "first"
    assert_equal version.to_s, shell_output("./first").strip
  end
end
