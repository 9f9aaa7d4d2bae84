<?php
namespace App\Controller;

use Symfony\Bundle\FrameworkBundle\Controller\AbstractController;
use Symfony\Component\HttpFoundation\{Request, RequestStack, Response, StreamedResponse};
use Symfony\Component\Routing\Annotation\Route;

/** Answers that are more than a page. */
final class AnswerController extends AbstractController
{
    #[Route('/away/{status}', name: 'away', requirements: ['status' => '30[12378]'], methods: ['GET', 'POST'])]
    public function away(int $status): Response { return $this->redirect('https://other.example/a?b=c#d', $status); }

    #[Route('/forward', name: 'forward', methods: ['GET'])]
    public function forwarded(): Response { return $this->forward(PageController::class . '::helloName', ['name' => 'forwarded']); }

    #[Route('/cached', name: 'cached', methods: ['GET'])]
    public function cached(Request $r): Response
    {
        $response = (new Response('worth keeping'))->setEtag('v1')->setLastModified(new \DateTimeImmutable('@1700000000'))->setPublic()->setMaxAge(60);
        $response->isNotModified($r);
        return $response;
    }

    #[Route('/nothing', name: 'nothing', methods: ['GET', 'DELETE'])]
    public function none(): Response { return new Response(null, 204); }

    #[Route('/exit', name: 'exit', methods: ['GET'])]
    public function ends(): Response { header('X-Exit: yes'); http_response_code(202); echo 'ended early'; exit; }

    /** Whose request the kernel believes to be at. */
    #[Route('/main', name: 'main', methods: ['GET'])]
    public function main(RequestStack $stack): Response { return new Response('main request of ' . $stack->getMainRequest()->cookies->get('mark'), 200, ['Content-Type' => 'text/plain']); }

    #[Route('/error/{status}', name: 'error', requirements: ['status' => '40[0369]|410|429|503'])]
    public function error(int $status): Response { throw new \Symfony\Component\HttpKernel\Exception\HttpException($status, 'as asked', null, ['Retry-After' => '7']); }

    #[Route('/error/type', name: 'type_error')]
    public function type(): Response { return strlen(); }

    #[Route('/error/late', name: 'late')]
    public function late(): Response { return new StreamedResponse(function () { echo "half of it\n"; ob_flush(); flush(); throw new \RuntimeException('in the middle'); }, 200, ['Content-Type' => 'text/plain']); }
}
