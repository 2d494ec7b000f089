# Tries a Homebrew formula without Homebrew: `ruby tests/formula.rb FORMULA SOURCES PREFIX` builds and
# installs the unpacked sources by it, and then runs its test. Of Homebrew's language it supports what
# packaging/holdfast.rb uses.
require "fileutils"
require "pathname"
require "tmpdir"

class Formula
  class << self
    attr_reader :said, :tried

    %i[desc homepage url sha256 license].each do |word|
      define_method(word) { |value| (@said ||= {})[word] = value }
    end
    def depends_on(*) = nil
    def on_linux = yield
    def test(&block) = @tried = block
    def inherited(formula) = (super; $formula = formula)
  end

  attr_reader :prefix, :testpath

  def initialize(prefix, testpath)
    @prefix, @testpath = Pathname(prefix), Pathname(testpath)
  end

  def include = prefix/"include"
  def lib = prefix/"lib"
  def version = self.class.said[:url][/-(\d+(?:\.\d+)+)\.tar\.gz$/, 1]
  def std_cmake_args = %W[-DCMAKE_INSTALL_PREFIX=#{prefix} -DCMAKE_INSTALL_LIBDIR=lib -DCMAKE_BUILD_TYPE=Release]
  def shell_output(command) = `#{command}`.tap { $?.success? or raise command }
  def assert_equal(wanted, found) = wanted == found || raise("#{found.inspect}, not #{wanted.inspect}")

  def system(*command)
    Kernel.system(*command.map(&:to_s), out: File::NULL) || raise("failed: #{command.join(" ")}")
  end
end

def ENV.cc = "cc"
load ARGV[0]
%i[desc homepage url sha256 license].each { |word| $formula.said[word].to_s.empty? and raise "no #{word}" }
$formula.said[:sha256].match?(/\A\h{64}\z/) || raise("sha256 #{$formula.said[:sha256]}")
Dir.mktmpdir do |folder|
  formula = $formula.new(File.expand_path(ARGV[2]), folder)
  Dir.chdir(ARGV[1]) { formula.install }
  ENV["LD_LIBRARY_PATH"] = formula.lib.to_s # Homebrew's compiler writes it into the program
  Dir.chdir(folder) { formula.instance_eval(&$formula.tried) }
end
