//! What patterns about commands cover and reach.

use haft_contract::{WorkPath, access::Command};

use super::*;
use crate::shell::analyse;

fn first(script: &str) -> Segment {
    let command = Command::Shell(script.to_owned());
    let analysis = analyse(&command, &WorkPath::root(), "/w").unwrap();
    analysis.segments()[0].clone()
}

fn reaches(pattern: &str, script: &str) -> PatternReach {
    let pattern = CommandPattern::parse(pattern).unwrap();
    pattern.reaches(&first(script))
}

fn covers(pattern: &str, script: &str, held: bool) -> bool {
    let pattern = CommandPattern::parse(pattern).unwrap();
    pattern.covers(&first(script), held)
}

#[test]
fn a_deny_reaches_every_spelling() {
    for script in [
        "git push",
        "git push origin main",
        "git -C . push",
        "/usr/bin/git push",
        "git -c a=b push",
        "git --git-dir=x push",
        "git --git-dir x --no-pager push -f",
        "./git push",
        "g\\it push",
    ] {
        assert_eq!(reaches("git push *", script), PatternReach::Yes, "{script}");
        assert_eq!(reaches("git push", script), PatternReach::Yes, "{script}");
    }
    for script in [
        "git log push",
        "git commit -m push",
        "git status",
        "gitpush",
        "git",
    ] {
        assert_eq!(reaches("git push *", script), PatternReach::No, "{script}");
    }
    assert_eq!(
        reaches("git push --force *", "git push origin --force"),
        PatternReach::Yes
    );
    assert_eq!(
        reaches("git push --force *", "git push origin"),
        PatternReach::No
    );
    assert_eq!(reaches("rm -rf *", "rm -fr x"), PatternReach::Yes);
    assert_eq!(reaches("rm -rf *", "rm -r -f x"), PatternReach::Yes);
    assert_eq!(reaches("rm -rf *", "rm x"), PatternReach::No);
    assert_eq!(
        reaches("foo apply", "foo --opt val apply"),
        PatternReach::Maybe
    );
    assert_eq!(reaches("rm -rf *", "rm *"), PatternReach::Maybe);
    assert_eq!(reaches("su", "sudo x"), PatternReach::No);
    for script in [
        "git pus?",
        "git p[u]sh",
        "git {push,}",
        "git *",
        "git -C * status",
        "git $X push origin",
        "git pus? --force",
    ] {
        assert_ne!(reaches("git push *", script), PatternReach::No, "{script}");
    }
    assert_eq!(
        reaches("git push --force", "git push --forc?"),
        PatternReach::Maybe
    );
    assert_eq!(reaches("git push *", "git add *"), PatternReach::No);
}

#[test]
fn a_deny_reaches_its_own_spelling() {
    for text in [
        "git -C x push",
        "git -c a=b --git-dir d push -f",
        "kubectl -n prod delete pod",
        "npm --prefix a run b",
        "rm -- -x",
        "rm -rf -- -x y",
        "git -C",
    ] {
        let pattern = CommandPattern::parse(text).unwrap();
        assert_eq!(pattern.reaches(&first(text)), PatternReach::Yes, "{text}");
    }
    assert_eq!(
        reaches("git -C x push", "git -c a=b -C x push -f"),
        PatternReach::Yes
    );
    assert_eq!(reaches("git -C x push", "git -C y push"), PatternReach::No);
    assert_eq!(
        reaches("git -C x push", "git -C x status"),
        PatternReach::No
    );
    assert_eq!(reaches("rm -r -- -x", "rm -v -r -- -x"), PatternReach::Yes);
    assert_eq!(reaches("cargo *r test", "cargo -r test"), PatternReach::Yes);
}

#[test]
fn an_allow_covers_what_it_says() {
    let covers = |pattern: &str, script: &str| covers(pattern, script, true);
    assert!(covers("npm test", "npm test"));
    assert!(covers("npm test", "npm  test"));
    assert!(!covers("npm test", "npm test x"));
    assert!(covers("npm run *", "npm run build --silent"));
    assert!(covers("npm run *", "npm run"));
    assert!(!covers("git log *", "git log --output=f"));
    assert!(covers("git log --output=f *", "git log --output=f x"));
    assert!(!covers("git push *", "git -C . push"));
    assert!(!covers("git push *", "/usr/bin/git push"));
    assert!(!covers("git * main", "git --force main"));
    assert!(!covers("echo *", "echo $X"));
    assert!(!covers("echo *", "echo $(id)"));
    assert!(covers("grep 'a b' *", "grep \"a b\" f"));
    assert!(!covers("python3 *", "python3 -c x"));
    assert!(covers("python3 -c *", "python3 -c x"));
}

#[test]
fn a_deny_means_what_it_says_in_any_spelling() {
    for (pattern, script) in [
        ("rm -rf *", "rm -Rf x"),
        ("rm -rf *", "rm -r -f x"),
        ("rm -rf *", "rm --recursive --force x"),
        ("rm -rf *", "rm --rec -f x"),
        ("rm -rf *", "rm x -fR"),
        ("rm --recursive *", "rm -r x"),
        ("git push --force *", "git push -f"),
        ("git push --force *", "git push origin +main"),
        ("git push --force *", "git -C . push origin --forc main"),
        ("git push -f", "git push --force origin"),
        ("npm publish *", "npm --access public publish"),
        ("kubectl delete *", "kubectl --v 5 delete pod x"),
        ("kubectl delete *", "kubectl --some new delete pod x"),
        ("docker rm -f *", "docker rm --force x"),
        (
            "kubectl --context prod delete *",
            "kubectl --context=prod delete x",
        ),
        ("kubectl -n prod delete *", "kubectl -nprod delete x"),
        (
            "terraform apply -auto-approve *",
            "terraform apply --auto-approve",
        ),
        ("terraform destroy infra", "terraform destroy ./infra/"),
        ("tar -x *", "tar xzf a.tgz"),
        ("tar xf *", "tar -x -f a"),
        ("make deploy *", "make -j deploy"),
        ("make deploy *", "make -j4 deploy"),
        ("npm install *", "npm i x"),
        ("npm i *", "npm install x"),
        ("npm publish *", "npm publ"),
        ("docker run *", "docker container run x"),
        ("docker push *", "docker image push x"),
        ("cargo build *", "cargo b"),
        ("pip install *", "pip3 install x"),
        ("python *", "python3.11 x"),
        ("git branch -D *", "git branch -df x"),
        ("git push origin main", "git push origin HEAD:main"),
        ("git push --force *", "git push --mirror"),
        ("git push *", "git-push origin"),
        ("git push *", "git - push"),
        ("cp -r *", "cp -a x y"),
    ] {
        assert_eq!(
            reaches(pattern, script),
            PatternReach::Yes,
            "{pattern}: {script}"
        );
    }
    for (pattern, script) in [
        ("deploy -f *", "deploy --force x"),
        ("deploy --force *", "deploy -f x"),
        ("kubectl delete -n prod *", "kubectl delete pod x -nprod"),
        (
            "kubectl delete -n prod *",
            "kubectl delete pod x --namespace=prod",
        ),
        ("git push *", "chrt 1 git push"),
        ("git push *", "uv run git push"),
        ("git push *", "bwrap --bind / / /usr/bin/git push"),
    ] {
        assert_eq!(
            reaches(pattern, script),
            PatternReach::Maybe,
            "{pattern}: {script}"
        );
    }
    for (pattern, script) in [
        ("rm -rf *", "rm -r x"),
        ("rm -rf *", "rm -f x"),
        ("git push --force *", "git push --follow-tags"),
        ("git push --force *", "git push origin main"),
        ("npm publish *", "npm --silent run publish"),
        ("kubectl delete *", "kubectl -n delete get pods"),
        ("git push *", "brew install git"),
        ("git push *", "echo git push"),
        ("git push origin main", "git push origin feature"),
        ("npm install *", "npm ls"),
    ] {
        assert_eq!(
            reaches(pattern, script),
            PatternReach::No,
            "{pattern}: {script}"
        );
    }
}

#[test]
fn a_star_covers_only_what_is_listed_where_no_kernel_holds_the_rest() {
    for (pattern, script) in [
        ("tar *", "tar xf a.tar --new-option"),
        ("deploy *", "deploy --hook x"),
        ("git *", "git frobnicate"),
        ("git push *", "git push --new-option"),
    ] {
        assert!(covers(pattern, script, true), "{script}");
        assert!(!covers(pattern, script, false), "{script}");
    }
    assert!(covers("deploy --hook *", "deploy --hook x", false));
    assert!(covers("git push *", "git push -u origin main", false));
    assert!(covers("deploy *", "deploy staging", false));
}

#[test]
fn what_is_more_than_one_command_is_no_pattern_of_words() {
    for text in ["a; b", "a | b", "echo $X", "a > f", "'a", "a &"] {
        assert!(CommandPattern::parse(text).is_none(), "{text}");
    }
}
