# Judges messages: perl judge.pl RULES HOME FILE... writes the points of each file, and its rules, as JSON.
#
# The command spamassassin reads the configuration of the machine, and makes a folder in the user's home directory
# whatever HOME says. Here the plugins are those of the machine, and nothing else is.
use strict;
use warnings;
use JSON::PP;
use Mail::SpamAssassin;

my ($rules, $home, @paths) = @ARGV;
my $judge = Mail::SpamAssassin->new({
    rules_filename       => $rules,
    site_rules_filename  => '/etc/spamassassin',
    ignore_site_cf_files => 1,
    userprefs_filename   => "$home/user_prefs",
    dont_copy_prefs      => 1,
    userstate_dir        => $home,
    home_dir_for_helpers => $home,
    local_tests_only     => 1,
    require_rules        => 1,
    post_config_text     => "use_bayes 0\n",
});
my @verdicts;
for my $path (@paths) {
    open my $file, '<:raw', $path or die "$path: $!";
    my $message = $judge->parse($file, 1);
    my $verdict = $judge->check($message);
    my %points  = map { $_ => 0 + $judge->{conf}{scores}{$_} } split /,/, $verdict->get_names_of_tests_hit();
    push @verdicts, { points => 0 + $verdict->get_score(), rules => \%points };
    $verdict->finish();
    $message->finish();
}
print encode_json(\@verdicts);
